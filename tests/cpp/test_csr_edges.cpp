#include "guarded.h"
#include "kernels/csr/edges.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/csr/pieces.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

struct Sorted {
  GuardedVector<int64_t> crow, col, perm;
  EdgeFault fault = EdgeFault::none;
  bool operator==(const Sorted&) const = default;
};

template <typename In, typename Out>
Sorted sorted(const GuardedVector<int64_t>& src, const GuardedVector<int64_t>& dst, int64_t M,
              int64_t N) {
  const GuardedVector<In> from(src.begin(), src.end()), to(dst.begin(), dst.end());
  GuardedVector<Out> crow(static_cast<size_t>(M) + 1), col(src.size()), perm(src.size());
  const auto fault =
      edge_rows({static_cast<int64_t>(src.size()), M, N, from.data(), to.data(), sizeof(In) == 8},
                {crow.data(), col.data(), perm.data(), sizeof(Out) == 8});
  return {{crow.begin(), crow.end()}, {col.begin(), col.end()}, {perm.begin(), perm.end()}, fault};
}

TEST(EdgeRows, IsAStableSort) {
  std::mt19937 random(1);
  for (const int64_t count : {0, 1, 50, 300'000}) {
    const int64_t M = 70, N = 40;
    GuardedVector<int64_t> src, dst;
    for (int64_t e = 0; e < count; ++e) {
      src.push_back(std::uniform_int_distribution<int64_t>(0, N - 1)(random));
      dst.push_back(std::uniform_int_distribution<int64_t>(0, M - 2)(random));
    }
    const auto result = sorted<int64_t, int32_t>(src, dst, M, N);
    ASSERT_EQ(result.fault, EdgeFault::none);
    Sorted expected{{0}, {}, {}, EdgeFault::none};
    for (int64_t m = 0; m < M; ++m) {
      for (size_t e = 0; e < src.size(); ++e) {
        if (dst[e] == m) {
          expected.col.push_back(src[e]);
          expected.perm.push_back(static_cast<int64_t>(e));
        }
      }
      expected.crow.push_back(static_cast<int64_t>(expected.col.size()));
    }
    EXPECT_EQ(result, expected);
    for (int threads = 2; threads <= 4; ++threads) {
      const Threads several(threads);
      EXPECT_EQ((sorted<int32_t, int32_t>(src, dst, M, N)), expected);
      EXPECT_EQ((sorted<int64_t, int64_t>(src, dst, M, N)), expected);
      EXPECT_EQ((sorted<int32_t, int64_t>(src, dst, M, N)), expected);
    }
  }
}

TEST(EdgeRows, EndsThatAreNoNodes) {
  for (const int64_t bad : {int64_t{-1}, int64_t{5}}) {
    EXPECT_EQ((sorted<int64_t, int32_t>({0, bad}, {1, 2}, 3, 5).fault), EdgeFault::src);
    EXPECT_EQ((sorted<int32_t, int32_t>({0, 1}, {1, bad}, 5, 9).fault), EdgeFault::dst);
  }
  EXPECT_EQ((sorted<int64_t, int32_t>({0}, {0}, 0, 1).fault), EdgeFault::dst);
  EXPECT_EQ((sorted<int64_t, int32_t>({0}, {0}, 1, 0).fault), EdgeFault::src);
}

TEST(OverRows, EveryRowOnce) {
  std::mt19937 random(2);
  for (const bool wide : {false, true}) {
    const RandomCsr matrix({0, 900, 3, 0, 1, 4000, 2, 2, 0}, 9, wide, random);
    for (const int64_t work : {1, 2, 7, 100, 3000, 100'000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(matrix.M));
      const Threads several(2);
      ASSERT_TRUE(over_rows(matrix.csr(), 2, work, [&](int64_t row, int64_t rows) {
        for (int64_t m = row; m < row + rows; ++m) {
          ++seen[static_cast<size_t>(m)];
        }
      }));
      for (const auto& times : seen) {
        EXPECT_EQ(times, 1) << "work " << work;
      }
    }
  }
  RandomCsr matrix({3, 5}, 9, true, random);
  matrix.crow[1] = 9;
  EXPECT_FALSE(over_rows(matrix.csr(), 1, 10, [](int64_t, int64_t) { FAIL(); }));
}

}  // namespace
}  // namespace cpuaccel::kernels
