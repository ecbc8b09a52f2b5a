#include "kernels/sddmm/sddmm.h"

#include <gtest/gtest.h>

#include "kernel_rows.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class SddmmTest : public testing::TestWithParam<KernelRow<SddmmFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, SddmmTest, testing::ValuesIn(usable_rows(sddmm_kernels())),
                         RowName());

SddmmCall call_of(const RandomCsr& matrix, const Elements& a, const Elements& b, int64_t K,
                  bool mean, Elements& dst) {
  return {.csr = matrix.csr(),
          .K = K,
          .type = a.type,
          .mean = mean,
          .a = a.bytes.data(),
          .b = b.bytes.data(),
          .a_stride = K + 1,
          .b_stride = K + 2,
          .dst = dst.bytes.data()};
}

TEST_P(SddmmTest, EveryWidth) {
  std::mt19937 random(1);
  for (const DataType type : {DataType::f32, DataType::f64, DataType::bf16, DataType::f16}) {
    for (int64_t K = 0; K <= 150; K = K < 70 ? K + 1 : K + 13) {
      const RandomCsr matrix({2, 0, 0, 7, 1, 30}, 9, K % 2 == 0, random);
      // Memory ends with the last row, so nothing may be read past it.
      const Elements a(type, normal_numbers(5 * (K + 1) + K, random));
      const Elements b(type, normal_numbers(8 * (K + 2) + K, random));
      for (const bool mean : {false, true}) {
        Elements dst(type, matrix.nnz());
        ASSERT_EQ(sddmm(call_of(matrix, a, b, K, mean, dst), GetParam().function), CsrFault::none);
        for (int64_t m = 0; m < matrix.M; ++m) {
          const int64_t begin = matrix.crow[static_cast<size_t>(m)];
          const int64_t end = matrix.crow[static_cast<size_t>(m) + 1];
          for (int64_t e = begin; e < end; ++e) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < K; ++k) {
              const double term =
                  a.get(m * (K + 1) + k) * b.get(matrix.col[static_cast<size_t>(e)] * (K + 2) + k);
              sum += term;
              size += std::abs(term);
            }
            const double divisor = mean ? static_cast<double>(end - begin) : 1.0;
            const double bound = ((static_cast<double>(K) + 2) * a.sum_rounding() * size +
                                  1.01 * a.rounding() * std::abs(sum)) /
                                     divisor +
                                 1e-7;
            ASSERT_LE(std::abs(dst.get(e) - sum / divisor), bound) << "K " << K << ", entry " << e;
          }
        }
      }
    }
  }
}

TEST_P(SddmmTest, SameBitsOnAnyNumberOfThreads) {
  std::mt19937 random(2);
  const RandomCsr matrix({5000, 1, 0, 3000, 20}, 50, true, random);
  const Elements a(DataType::f32, normal_numbers(5 * 31, random));
  const Elements b(DataType::f32, normal_numbers(50 * 32, random));
  Elements serial(DataType::f32, matrix.nnz()), parallel = serial;
  sddmm(call_of(matrix, a, b, 30, true, serial), GetParam().function);
  for (int count = 2; count <= 4; ++count) {
    const Threads threads(count);
    sddmm(call_of(matrix, a, b, 30, true, parallel), GetParam().function);
    EXPECT_EQ(serial.bytes, parallel.bytes);
  }
}

TEST_P(SddmmTest, BadIndices) {
  std::mt19937 random(3);
  const Elements a(DataType::f32, 3 * 5), b(DataType::f32, 7 * 6);
  for (const bool wide : {false, true}) {
    for (const int64_t column : {int64_t{-1}, int64_t{7}, INT64_MAX}) {
      RandomCsr matrix({3, 0, 5}, 7, wide, random);
      Elements dst(DataType::f32, matrix.nnz());
      matrix.col[6] = column;
      matrix.narrow_col[6] = static_cast<int32_t>(column);
      EXPECT_EQ(sddmm(call_of(matrix, a, b, 4, false, dst), GetParam().function), CsrFault::col);
    }
    RandomCsr matrix({3, 0, 5}, 7, wide, random);
    Elements dst(DataType::f32, matrix.nnz());
    matrix.crow[1] = matrix.narrow_crow[1] = 9;
    EXPECT_EQ(sddmm(call_of(matrix, a, b, 4, false, dst), GetParam().function), CsrFault::crow);
  }
}

TEST(SddmmList, EndsInRef) { EXPECT_EQ(sddmm_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
