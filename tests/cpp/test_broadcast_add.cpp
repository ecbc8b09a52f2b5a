#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "guarded.h"
#include "kernels/broadcast_add/broadcast_add.h"
#include "kernels/gemm/half.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

struct Tensor {
  GuardedVector<float> floats;
  GuardedVector<uint16_t> halves;

  explicit Tensor(int64_t count, uint32_t seed) {
    for (int64_t i = 0; i < count; ++i) {
      seed = seed * 1664525u + 1013904223u;
      floats.push_back(bf16_to_float(
          float_to_bf16(static_cast<float>(seed >> 8) / static_cast<float>(1 << 20) - 8.0f)));
      halves.push_back(float_to_bf16(floats.back()));
    }
  }
  BroadcastOperand operand(DataType type) const {
    const void* data = type == DataType::f32 ? static_cast<const void*>(floats.data())
                                             : static_cast<const void*>(halves.data());
    return {data, static_cast<int64_t>(floats.size())};
  }
};

void check(DataType type, int64_t count, const GuardedVector<int64_t>& counts, bool in_place) {
  std::vector<Tensor> tensors;
  for (const int64_t each : counts) {
    tensors.emplace_back(each, static_cast<uint32_t>(each + count));
  }
  GuardedVector<double> exact(static_cast<size_t>(count));
  for (const auto& tensor : tensors) {
    for (size_t i = 0; i < exact.size(); ++i) {
      exact[i] += tensor.floats[i % tensor.floats.size()];
    }
  }
  std::vector<BroadcastOperand> operands;
  for (const auto& tensor : tensors) {
    operands.push_back(tensor.operand(type));
  }
  Tensor result(count, 1);
  void* dst = type == DataType::f32 ? static_cast<void*>(result.floats.data())
                                    : static_cast<void*>(result.halves.data());
  if (in_place) {
    Tensor& over = tensors[0];
    dst = const_cast<void*>(operands[0].data);
    broadcast_add({operands, dst, count, type});
    result = over;
  } else {
    broadcast_add({operands, dst, count, type});
  }
  for (size_t i = 0; i < exact.size(); ++i) {
    // Sums of a few bf16 numbers of similar magnitude are exact in f32.
    const auto expected = static_cast<float>(exact[i]);
    if (type == DataType::f32) {
      ASSERT_EQ(result.floats[i], expected) << i;
    } else {
      ASSERT_EQ(result.halves[i], float_to_bf16(expected)) << i;
    }
  }
}

TEST(BroadcastAdd, RepeatsWhatIsShorter) {
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    for (const int64_t count : {1, 16, 96, 1024, 3 * 1024 + 96}) {
      check(type, count, {count, count}, false);
      check(type, count, {count, 1, count}, false);
    }
    check(type, 4 * 7 * 48, {4 * 7 * 48, 7 * 48, 48}, false);
    check(type, 4 * 7 * 480, {7 * 480, 4 * 7 * 480, 480, 480}, false);
  }
}

TEST(BroadcastAdd, InPlace) {
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    check(type, 5 * 700, {5 * 700, 700, 5 * 700}, true);
  }
}

TEST(BroadcastAdd, Nothing) { check(DataType::f32, 0, {1}, false); }

TEST(BroadcastAdd, ThreadsDoNotMatter) {
  const Threads threads(4);
  check(DataType::f32, 130 * 1000, {130 * 1000, 1000}, false);
  check(DataType::bf16, 130 * 1000, {1000, 130 * 1000}, false);
}

}  // namespace
}  // namespace cpuaccel::kernels
