#include "guarded.h"
#include "kernels/gather/gather.h"

#include <gtest/gtest.h>

#include <random>

#include "kernel_rows.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

// Rows of every length, each but the last with a gap after it; indices of any value.
TEST(Gather, EveryLength) {
  std::mt19937 random(1);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int64_t bytes = 0; bytes <= 700; bytes = bytes < 140 ? bytes + 1 : bytes + 37) {
    for (const int64_t N : {1, 3, 4000}) {
      for (const bool wraps : {false, true}) {
        const bool wide = bytes % 2 == 0;
        const int64_t E = 500, stride = bytes + 5;
        GuardedVector<std::byte> src(static_cast<size_t>((N - 1) * stride + bytes));
        for (auto& byte : src) {
          byte = static_cast<std::byte>(between(0, 255));
        }
        GuardedVector<int64_t> index(static_cast<size_t>(E));
        for (auto& number : index) {
          number = between(0, 9) == 0 ? between(-3 * N, 3 * N) : between(0, N - 1);
        }
        index[3] = wide ? INT64_MIN : INT32_MIN;
        index[4] = wide ? INT64_MAX : INT32_MAX;
        const GuardedVector<int32_t> narrow(index.begin(), index.end());
        GuardedVector<std::byte> dst(static_cast<size_t>(E * bytes), std::byte{7}), expected = dst;
        for (int64_t e = 0; e < E; ++e) {
          int64_t row = index[static_cast<size_t>(e)];
          row += wraps && row < 0 ? N : 0;
          for (int64_t i = 0; row >= 0 && row < N && i < bytes; ++i) {
            expected[static_cast<size_t>(e * bytes + i)] =
                src[static_cast<size_t>(row * stride + i)];
          }
        }
        const Threads threads(static_cast<int>(1 + bytes % 3));
        gather({.E = E,
                .N = N,
                .index = wide ? static_cast<const void*>(index.data()) : narrow.data(),
                .wide = wide,
                .wraps = wraps,
                .row_bytes = bytes,
                .src = src.data(),
                .src_stride = stride,
                .dst = dst.data()});
        ASSERT_EQ(dst, expected) << bytes << " bytes of " << N << " rows";
      }
    }
  }
}

TEST(Gather, LongRowsByEachIsa) {
  std::mt19937 random(2);
  for (const auto& row : usable_rows(copy_row_kernels())) {
    for (int64_t bytes = kLongRow; bytes < kLongRow + 700; bytes += 61) {
      constexpr int64_t kRows = 5;
      GuardedVector<std::byte> src(static_cast<size_t>(kRows * bytes));
      for (auto& byte : src) {
        byte = static_cast<std::byte>(random());
      }
      const GuardedVector<int64_t> index{4, 0, 3, 3};
      GuardedVector<std::byte> dst(index.size() * static_cast<size_t>(bytes)), expected;
      for (const int64_t number : index) {
        const auto begin = src.begin() + number * bytes;
        expected.insert(expected.end(), begin, begin + bytes);
      }
      gather({.E = std::ssize(index),
              .N = kRows,
              .index = index.data(),
              .row_bytes = bytes,
              .src = src.data(),
              .src_stride = bytes,
              .dst = dst.data()},
             row.function);
      ASSERT_EQ(dst, expected) << row.name << ", " << bytes << " bytes";
    }
  }
}

TEST(Gather, NothingToDo) { gather({}); }

TEST(CopyRowList, EndsInRef) { EXPECT_EQ(copy_row_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
