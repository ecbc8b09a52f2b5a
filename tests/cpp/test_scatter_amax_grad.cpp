#include "guarded.h"
#include "kernels/scatter_amax_grad/scatter_amax_grad.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernel_rows.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class ScatterAmaxGradTest : public testing::TestWithParam<KernelRow<ScatterAmaxGradFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, ScatterAmaxGradTest,
                         testing::ValuesIn(usable_rows(scatter_amax_grad_kernels())), RowName());

// A gap follows each row of src, except the last.
struct Case {
  Case(DataType type, int64_t entries, int64_t rows, int64_t columns, bool is_wide,
       std::mt19937& random)
      : E(entries),
        N(rows),
        K(columns),
        wide(is_wide),
        index(static_cast<size_t>(E)),
        src(type, normal_numbers((E - 1) * (K + 1) + K, random)),
        value(type, normal_numbers(N * K, random)),
        share(type, normal_numbers(N * K, random)),
        dst(type, normal_numbers(E * K, random)) {
    for (auto& number : index) {
      number = std::uniform_int_distribution<int64_t>(0, N - 1)(random);
    }
    for (int64_t e = 0; e < E; e += 2) {
      for (int64_t k = e % 3; k < K; k += 2) {
        src.set(e * (K + 1) + k, value.get(index[static_cast<size_t>(e)] * K + k));
      }
    }
    src.set(0, std::numeric_limits<double>::quiet_NaN());
    value.set(0, std::numeric_limits<double>::quiet_NaN());
    share.set(K - 1, std::numeric_limits<double>::infinity());
  }

  ScatterAmaxGradCall call() {
    narrow.assign(index.begin(), index.end());
    return {.E = E,
            .N = N,
            .K = K,
            .index = wide ? static_cast<const void*>(index.data()) : narrow.data(),
            .wide = wide,
            .type = src.type,
            .src = src.bytes.data(),
            .src_stride = K + 1,
            .value = value.bytes.data(),
            .share = share.bytes.data(),
            .dst = dst.bytes.data(),
            .nan_ties = nan_ties,
            .zeroes = zeroes};
  }
  void check() const {
    for (int64_t e = 0; e < E; ++e) {
      const int64_t row = index[static_cast<size_t>(e)];
      for (int64_t k = 0; k < K; ++k) {
        double expected = 0;
        if (row >= 0 && row < N) {
          const double x = src.get(e * (K + 1) + k), of_row = share.get(row * K + k);
          const bool tie = x == value.get(row * K + k) || (nan_ties && std::isnan(x));
          expected = tie ? of_row : zeroes ? 0 : 0 * of_row;
        }
        const double got = dst.get(e * K + k);
        ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
            << got << " for " << expected << ", K " << K << ", entry " << e << ", column " << k;
      }
    }
  }

  int64_t E, N, K;
  bool wide, nan_ties = false, zeroes = false;
  GuardedVector<int64_t> index;
  GuardedVector<int32_t> narrow;
  Elements src, value, share, dst;
};

TEST_P(ScatterAmaxGradTest, EveryWidth) {
  std::mt19937 random(1);
  for (const DataType type : {DataType::f32, DataType::f64}) {
    for (int64_t K = 1; K <= 140; K = K < 40 ? K + 1 : K + 7) {
      Case a(type, 60, 1 + K % 11, K, K % 2 == 0, random);
      a.nan_ties = K % 3 == 0;
      a.zeroes = K % 5 == 0;
      scatter_amax_grad(a.call(), GetParam().function);
      a.check();
    }
  }
}

TEST_P(ScatterAmaxGradTest, ThreadsAndNumbersOutOfRange) {
  std::mt19937 random(2);
  for (int count = 1; count <= 3; ++count) {
    Case a(DataType::f32, 9000, 400, 20, count == 2, random);
    a.index[5] = -1;
    a.index[8999] = 400;
    const Threads threads(count);
    scatter_amax_grad(a.call(), GetParam().function);
    a.check();
  }
}

TEST_P(ScatterAmaxGradTest, NothingToDo) {
  for (const int64_t K : {0, 3}) {
    ScatterAmaxGradCall call;
    call.N = 2;
    call.K = K;
    scatter_amax_grad(call, GetParam().function);
  }
}

TEST(ScatterAmaxGradList, EndsInRef) {
  EXPECT_EQ(scatter_amax_grad_kernels().back().isa, Isa::ref);
}

}  // namespace
}  // namespace cpuaccel::kernels
