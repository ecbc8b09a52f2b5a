#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "guarded.h"
#include "kernels/qgemm/block.h"
#include "kernels/qgemm/qgemm.h"
#include "qgemm_case.h"

namespace cpuaccel::kernels {
namespace {

// Multiplies a row of ones by the weights: dst is their column sums.
std::vector<int32_t> sums_by(const QgemmWeights& weights) {
  const GuardedVector<uint8_t> ones(static_cast<size_t>(weights.K), 1);
  GuardedVector<int32_t> sums(static_cast<size_t>(weights.N));
  QgemmCall call;
  call.weights = &weights;
  call.M = 1;
  call.src.data = ones.data();
  call.src.row_stride = weights.K;
  call.dst = {sums.data(), DataType::s32, weights.N, nullptr, nullptr};
  EXPECT_EQ(qgemm(call), nullptr);
  return {sums.begin(), sums.end()};
}

// Memory of exactly these bytes, aligned to 64.
struct Block {
  explicit Block(int64_t count)
      : memory(static_cast<size_t>(count) + 64),
        data(memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64),
        bytes(count) {}
  std::vector<std::byte> memory;
  std::byte* data;
  int64_t bytes;
};

Block packed_block(const QgemmPlain& plain) {
  Block block(qgemm_block_bytes(plain.K, plain.N));
  qgemm_pack_block(plain, block.data);
  return block;
}

TEST(QgemmBlock, HoldsTheWeights) {
  std::mt19937 random(3);
  for (const auto& [N, K] :
       {std::pair<int64_t, int64_t>{1, 1}, {50, 37}, {64, 64}, {7, 300}, {0, 5}, {5, 0}}) {
    const auto plain = random_bytes<int8_t>(random, N * K);
    const QgemmPlain given{plain.data(), K, N, 1, K};
    const Block block = packed_block(given);
    const auto weights = qgemm_weights_in(block.data, block.bytes);
    ASSERT_EQ(weights.row, first_usable(qgemm_kernels()).function);
    GuardedVector<int8_t> unpacked(static_cast<size_t>(N * K));
    qgemm_unpack(weights, unpacked.data(), 1, K);
    EXPECT_EQ(unpacked, plain);
    EXPECT_EQ(sums_by(weights), sums_by(qgemm_pack(given)));
  }
}

TEST(QgemmBlock, KnowsWhatItIsFor) {
  std::mt19937 random(3);
  const auto plain = random_bytes<int8_t>(random, 20 * 12);
  Block block = packed_block({plain.data(), 20, 12, 1, 20});
  QgemmHeader header;
  std::memcpy(&header, block.data, sizeof(header));
  const auto changed = [&](const auto& change) {
    QgemmHeader other = header;
    change(other);
    std::memcpy(block.data, &other, sizeof(other));
    return qgemm_weights_in(block.data, block.bytes);
  };
  // Of another CPU: it can be unpacked.
  const auto weights = changed([](QgemmHeader& h) { h.row[0] ^= 1; });
  EXPECT_EQ(weights.row, nullptr);
  GuardedVector<int8_t> unpacked(20 * 12);
  qgemm_unpack(weights, unpacked.data(), 1, 20);
  EXPECT_EQ(unpacked, plain);
  // Damaged.
  EXPECT_THROW(changed([](QgemmHeader& h) { h.magic[3] ^= 1; }), std::invalid_argument);
  EXPECT_THROW(changed([](QgemmHeader& h) { ++h.version; }), std::invalid_argument);
  EXPECT_THROW(changed([](QgemmHeader& h) { h.K = -1; }), std::invalid_argument);
  EXPECT_THROW(changed([](QgemmHeader& h) { h.N = int64_t{1} << 40; }), std::invalid_argument);
  EXPECT_THROW(changed([](QgemmHeader& h) { h.N += 4096; }), std::invalid_argument);
  EXPECT_THROW(changed([](QgemmHeader& h) { h.nr = 0; }), std::invalid_argument);
  EXPECT_THROW(qgemm_weights_in(block.data, 10), std::invalid_argument);
  // Not aligned.
  changed([](QgemmHeader&) {});
  Block moved(block.bytes + 1);
  std::memcpy(moved.data + 1, block.data, static_cast<size_t>(block.bytes));
  EXPECT_EQ(qgemm_weights_in(moved.data + 1, block.bytes).row, nullptr);
}

}  // namespace
}  // namespace cpuaccel::kernels
