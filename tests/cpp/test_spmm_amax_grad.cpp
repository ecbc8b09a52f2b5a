#include "guarded.h"
#include "kernels/spmm_amax_grad/spmm_amax_grad.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernel_rows.h"
#include "kernels/spmm/spmm.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class SpmmAmaxGradTest : public testing::TestWithParam<KernelRow<SpmmAmaxGradFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, SpmmAmaxGradTest,
                         testing::ValuesIn(usable_rows(spmm_amax_grad_kernels())), RowName());

// Small whole numbers, so that many terms are equal and all sums are exact, except those of shares.
GuardedVector<double> few_numbers(int64_t count, std::mt19937& random) {
  GuardedVector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(std::uniform_int_distribution<int>(-2, 2)(random));
  }
  return numbers;
}

struct Case {
  Case(const GuardedVector<int64_t>& lengths, int64_t columns, DataType of, bool wide,
       bool weighted, int64_t features, std::mt19937& random)
      : matrix(lengths, columns, wide, random),
        K(features),
        type(of),
        src(of, few_numbers(columns * K, random)),
        values(of, few_numbers(matrix.nnz(), random)),
        grad(of, few_numbers(matrix.M * K, random)),
        dst(of, matrix.M * K),
        share(of, matrix.M * K),
        grad_src(of, columns * K),
        grad_values(of, matrix.nnz()),
        indices(static_cast<size_t>(2 * matrix.nnz() + columns + 1) * (wide ? 8 : 4)) {
    const auto size = static_cast<int64_t>(wide ? 8 : 4) * matrix.nnz();
    const CsrColumns places{indices.data() + 2 * size, indices.data(), indices.data() + size, wide};
    EXPECT_EQ(csr_transpose(matrix.csr(), places), CsrFault::none);
    SpmmCall forward{.csr = matrix.csr(), .K = K, .type = type, .reduce = Reduce::amax};
    forward.values = weighted ? values.bytes.data() : nullptr;
    forward.src = src.bytes.data();
    forward.src_stride = K;
    forward.dst = dst.bytes.data();
    EXPECT_EQ(spmm(forward), CsrFault::none);
    call = {.csr = matrix.csr(),
            .columns = places,
            .K = K,
            .type = type,
            .values = forward.values,
            .src = src.bytes.data(),
            .dst = dst.bytes.data(),
            .grad = grad.bytes.data(),
            .share = share.bytes.data(),
            .grad_src = grad_src.bytes.data(),
            .grad_values = grad_values.bytes.data()};
  }
  double value(int64_t e) const { return call.values != nullptr ? values.get(e) : 1; }

  RandomCsr matrix;
  int64_t K;
  DataType type;
  Elements src, values, grad, dst, share, grad_src, grad_values;
  GuardedVector<std::byte> indices;
  SpmmAmaxGradCall call;
};

void check(const Case& found) {
  const auto& a = found.matrix;
  GuardedVector<double> of_src(static_cast<size_t>(a.N * found.K)), of_values(a.col.size());
  for (int64_t m = 0; m < a.M; ++m) {
    for (int64_t k = 0; k < found.K; ++k) {
      const double best = found.dst.get(m * found.K + k);
      std::vector<size_t> hits;
      for (auto e = a.crow[static_cast<size_t>(m)]; e < a.crow[static_cast<size_t>(m) + 1]; ++e) {
        const auto at = static_cast<size_t>(e);
        if (found.value(e) * found.src.get(a.col[at] * found.K + k) == best) {
          hits.push_back(at);
        }
      }
      const double count = static_cast<double>(hits.size()) + (best == 0 ? 1 : 0);
      for (const size_t e : hits) {
        const double share = found.grad.get(m * found.K + k) / count;
        const auto place = a.col[e] * found.K + k;
        of_src[static_cast<size_t>(place)] += found.value(static_cast<int64_t>(e)) * share;
        of_values[e] += found.src.get(place) * share;
      }
    }
  }
  for (size_t i = 0; i < of_src.size(); ++i) {
    ASSERT_NEAR(found.grad_src.get(static_cast<int64_t>(i)), of_src[i], 1e-4) << "src " << i;
  }
  for (size_t e = 0; e < of_values.size(); ++e) {
    ASSERT_NEAR(found.grad_values.get(static_cast<int64_t>(e)), of_values[e], 1e-4)
        << "entry " << e;
  }
}

TEST_P(SpmmAmaxGradTest, EveryWidth) {
  std::mt19937 random(1);
  for (const DataType type : {DataType::f32, DataType::f64}) {
    for (int64_t K = 1; K <= 150; K = K < 40 ? K + 1 : K + 13) {
      Case each({2, 0, 0, 7, 1, 30}, 9, type, K % 2 == 0, K % 3 == 0, K, random);
      spmm_amax_grad(each.call, GetParam().function);
      check(each);
    }
  }
}

TEST_P(SpmmAmaxGradTest, SameBitsOnAnyNumberOfThreads) {
  std::mt19937 random(2);
  Case serial({5000, 1, 0, 3000, 20}, 50, DataType::f32, false, true, 30, random);
  spmm_amax_grad(serial.call, GetParam().function);
  check(serial);
  const auto of_src = serial.grad_src.bytes, of_values = serial.grad_values.bytes;
  for (int count = 2; count <= 4; ++count) {
    const Threads threads(count);
    spmm_amax_grad(serial.call, GetParam().function);
    EXPECT_EQ(serial.grad_src.bytes, of_src);
    EXPECT_EQ(serial.grad_values.bytes, of_values);
  }
}

// Rows and columns of more entries than a piece of work has are cut into parts.
TEST_P(SpmmAmaxGradTest, LongRows) {
  std::mt19937 random(3);
  Case serial({3, 30000, 0, 1, 20000, 20}, 4, DataType::f64, true, true, 30, random);
  spmm_amax_grad(serial.call, GetParam().function);
  check(serial);
  const auto of_src = serial.grad_src.bytes, of_values = serial.grad_values.bytes;
  const Threads threads(7);
  spmm_amax_grad(serial.call, GetParam().function);
  EXPECT_EQ(serial.grad_src.bytes, of_src);
  EXPECT_EQ(serial.grad_values.bytes, of_values);
}

TEST(SpmmAmaxGradList, EndsInRef) { EXPECT_EQ(spmm_amax_grad_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
