#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/gemm/half.h"
#include "kernels/gemm_w8/gemm_w8.h"
#include "kernels/qgemm/kernels.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<GemmW8Function>;

// A usable row of qgemm that packs as this row reads, or null.
const KernelRow<QgemmFunction>* packing_row(GemmW8Function* row) {
  for (const auto& candidate : qgemm_kernels()) {
    if (isa_usable(candidate.isa) && candidate.function().nr == row().nr &&
        candidate.function().run == row().run) {
      return &candidate;
    }
  }
  return nullptr;
}

class GemmW8Test : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    const GemmW8Kernels& kernels = GetParam().function();
    if (packing_row(GetParam().function) == nullptr) {
      GTEST_SKIP() << "no row of qgemm that this CPU can run packs panels of " << kernels.nr
                   << " columns in runs of " << kernels.run;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Rows, GemmW8Test, testing::ValuesIn(usable_rows(gemm_w8_kernels())),
                         RowName());

struct Case {
  int64_t M, N, K;
  DataType type = DataType::f32;
  GuardedVector<int8_t> weights;
  GuardedVector<uint8_t> src, dst;
  std::vector<double> values;
  GuardedVector<float> scales, bias;

  Case(std::mt19937& random, int64_t m, int64_t n, int64_t k, DataType of)
      : M(m), N(n), K(k), type(of) {
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::uniform_int_distribution<int> byte(-128, 127);
    const auto size = static_cast<size_t>(data_type_size(type));
    src.resize(static_cast<size_t>(M * K) * size);
    dst.resize(static_cast<size_t>(M * N) * size);
    for (int64_t i = 0; i < M * K; ++i) {
      float_to_element(normal(random), src.data(), type, i);
      values.push_back(static_cast<double>(element_to_float(src.data(), type, i)));
    }
    weights.resize(static_cast<size_t>(N * K));
    std::ranges::generate(weights, [&] { return static_cast<int8_t>(byte(random)); });
    for (int64_t i = 0; i < N; ++i) {
      scales.push_back(normal(random));
      bias.push_back(normal(random));
    }
  }

  void run(GemmW8Function* row, bool biased) {
    const auto packed = qgemm_pack({weights.data(), K, N, 1, K}, packing_row(row)->function);
    GemmW8Call call;
    call.weights = &packed;
    call.M = M;
    call.src = src.data();
    call.src_type = call.dst_type = type;
    call.src_stride = K;
    call.dst = dst.data();
    call.scales = scales.data();
    call.bias = biased ? bias.data() : nullptr;
    gemm_w8(call, row);
    const Isa isa = packing_row(row)->isa;
    const bool fits = M <= 2 && 3 * M <= packing_row(row)->function().mr;
    check(biased, fits && (isa == Isa::avx512_vnni || isa == Isa::avx_vnni));
  }

  // by_bytes: rows of src became rows of three bytes, with the error of byte_rows.h.
  void check(bool biased, bool by_bytes) const {
    const double own = type == DataType::f32 ? 0x1p-23 : type == DataType::bf16 ? 0x1p-8 : 0x1p-11;
    for (int64_t m = 0; m < M; ++m) {
      double largest = 0.0;
      for (int64_t k = 0; k < K; ++k) {
        largest = std::max(largest, std::abs(values[static_cast<size_t>(m * K + k)]));
      }
      for (int64_t n = 0; n < N; ++n) {
        double sum = 0.0, terms = 0.0, weights_sum = 0.0;
        for (int64_t k = 0; k < K; ++k) {
          weights_sum += std::abs(weights[static_cast<size_t>(n * K + k)]);
          const double term =
              values[static_cast<size_t>(m * K + k)] * weights[static_cast<size_t>(n * K + k)];
          sum += term;
          terms += std::abs(term);
        }
        const auto column = static_cast<size_t>(n);
        const double scale = static_cast<double>(scales[column]);
        const double expected = sum * scale + (biased ? static_cast<double>(bias[column]) : 0.0);
        const double of_sums = by_bytes ? 0x1p-23 * largest * weights_sum + 4 * 0x1p-24 * terms
                                        : static_cast<double>(K) * 0x1p-24 * terms;
        const double allowed = of_sums * std::abs(scale) + own * std::abs(expected) + 1e-7;
        ASSERT_NEAR(static_cast<double>(element_to_float(dst.data(), type, m * N + n)), expected,
                    allowed)
            << M << "x" << N << "x" << K << " at " << m << ", " << n;
      }
    }
  }
};

TEST_P(GemmW8Test, AllSizesOfTilesAndTails) {
  std::mt19937 random(1);
  const int64_t nr = GetParam().function().nr;
  for (const int64_t M : {1, 2, 3, 4, 5, 8, 9, 16, 17, 20}) {
    for (const int64_t N : {int64_t{1}, nr / 3, nr / 3 + 1, nr - 1, nr, nr + 1, 2 * nr + 5}) {
      for (const int64_t K : {1, 3, 4, 5, 9, 127, 128, 129, 260}) {
        Case(random, M, N, K, DataType::f32).run(GetParam().function, K % 2 == 0);
      }
    }
  }
}

TEST_P(GemmW8Test, EveryType) {
  std::mt19937 random(2);
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16}) {
    for (const int64_t M : {1, 3, 30}) {
      Case(random, M, 50, 70, type).run(GetParam().function, true);
    }
  }
}

// Rows that three bytes cannot hold are multiplied as floats.
TEST_P(GemmW8Test, RowsWithoutASizeOfTheirOwn) {
  std::mt19937 random(5);
  for (const float each : {0.0f, 1e-40f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Case item(random, 1, 60, 130, DataType::f32);
    std::fill_n(reinterpret_cast<float*>(item.src.data()), item.K, 0.0f);
    reinterpret_cast<float*>(item.src.data())[7] = each;
    std::ranges::fill(item.weights, int8_t{3});
    const auto packed = qgemm_pack({item.weights.data(), item.K, item.N, 1, item.K},
                                   packing_row(GetParam().function)->function);
    GemmW8Call call;
    call.weights = &packed;
    call.M = 1;
    call.src = item.src.data();
    call.src_stride = item.K;
    call.dst = item.dst.data();
    const std::vector<float> ones(static_cast<size_t>(item.N), 1.0f);
    call.scales = ones.data();
    gemm_w8(call, GetParam().function);
    for (int64_t n = 0; n < item.N; ++n) {
      const float got = element_to_float(item.dst.data(), DataType::f32, n);
      if (std::isnan(each)) {
        ASSERT_TRUE(std::isnan(got)) << n;
      } else {
        ASSERT_EQ(got, 3.0f * each) << n;
      }
    }
  }
}

TEST_P(GemmW8Test, NothingToAddOrToDo) {
  std::mt19937 random(3);
  for (const auto& [M, N, K] :
       {std::array<int64_t, 3>{3, 20, 0}, {20, 20, 0}, {0, 5, 6}, {4, 0, 6}}) {
    Case(random, M, N, K, DataType::f32).run(GetParam().function, true);
  }
}

TEST_P(GemmW8Test, ThreadsGiveTheSameBits) {
  std::mt19937 random(4);
  for (const int64_t M : {1, 40}) {
    Case one(random, M, 300, 500, DataType::f32);
    one.run(GetParam().function, true);
    const auto expected = one.dst;
    const Threads threads(5);
    one.run(GetParam().function, true);
    EXPECT_EQ(one.dst, expected);
  }
}

TEST(GemmW8List, EndsInRef) { EXPECT_EQ(gemm_w8_kernels().back().isa, Isa::ref); }

// Weights that were packed for another ISA than the one in use find no row or a row that reads
// them.
TEST(GemmW8List, RowsReadTheWeightsOfEachRowOfQgemm) {
  const GuardedVector<int8_t> weights(static_cast<size_t>(30 * 20), 1);
  for (const auto& row : usable_rows(qgemm_kernels())) {
    const auto packed = qgemm_pack({weights.data(), 20, 30, 1, 20}, row.function);
    GemmW8Function* found = gemm_w8_row(packed);
    if (found != nullptr) {
      EXPECT_EQ(found().nr, row.function().nr);
      EXPECT_EQ(found().run, row.function().run);
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
