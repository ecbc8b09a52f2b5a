#include "guarded.h"
#include "kernels/edge_softmax/edge_softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernel_rows.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class EdgeSoftmaxTest : public testing::TestWithParam<KernelRow<EdgeSoftmaxFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, EdgeSoftmaxTest,
                         testing::ValuesIn(usable_rows(edge_softmax_kernels())), RowName());

constexpr double kSlope = 0.25;

struct Case {
  Case(const GuardedVector<int64_t>& lengths, int64_t sources, DataType type, bool wide, int64_t H,
       bool of_nodes, std::mt19937& random)
      : matrix(lengths, sources, wide, random),
        scores(type, normal_numbers(matrix.nnz() * H, random)),
        src(type, normal_numbers(sources * H, random)),
        own(type, normal_numbers(matrix.M * H, random)),
        grad(type, normal_numbers(matrix.nnz() * H, random)),
        alpha(type, matrix.nnz() * H),
        dst(type, matrix.nnz() * H),
        dst_own(type, matrix.M * H) {
    call.csr = matrix.csr();
    call.H = H;
    call.type = type;
    call.slope = kSlope;
    call.scores = of_nodes ? nullptr : scores.bytes.data();
    call.src = src.bytes.data();
    call.own = own.bytes.data();
  }
  bool run(EdgeSoftmaxFunction* function) {
    call.step = EdgeSoftmaxStep::softmax;
    call.dst = alpha.bytes.data();
    if (!edge_softmax(call, function)) {
      return false;
    }
    auto backward = call;
    backward.step = EdgeSoftmaxStep::gradient;
    backward.alpha = alpha.bytes.data();
    backward.grad = grad.bytes.data();
    backward.dst = dst.bytes.data();
    backward.dst_own = call.scores == nullptr ? dst_own.bytes.data() : nullptr;
    return edge_softmax(backward, function);
  }
  double before_leaky(int64_t m, int64_t e, int64_t h) const {
    return src.get(matrix.col[static_cast<size_t>(e)] * call.H + h) + own.get(m * call.H + h);
  }
  double score(int64_t m, int64_t e, int64_t h) const {
    if (call.scores != nullptr) {
      return scores.get(e * call.H + h);
    }
    const double z = before_leaky(m, e, h);
    return z > 0 ? z : z * kSlope;
  }

  RandomCsr matrix;
  Elements scores, src, own, grad, alpha, dst, dst_own;
  EdgeSoftmaxCall call;
};

void check(const Case& found) {
  const int64_t H = found.call.H;
  for (int64_t m = 0; m < found.matrix.M; ++m) {
    const auto begin = found.matrix.crow[static_cast<size_t>(m)];
    const auto end = found.matrix.crow[static_cast<size_t>(m) + 1];
    for (int64_t h = 0; h < H; ++h) {
      double sum = 0, of_all = 0, of_own = 0;
      for (auto e = begin; e < end; ++e) {
        sum += std::exp(found.score(m, e, h));
      }
      for (auto e = begin; e < end; ++e) {
        of_all += std::exp(found.score(m, e, h)) / sum * found.grad.get(e * H + h);
      }
      for (auto e = begin; e < end; ++e) {
        const double alpha = std::exp(found.score(m, e, h)) / sum;
        double gradient = alpha * (found.grad.get(e * H + h) - of_all);
        if (found.call.scores == nullptr) {
          gradient *= found.before_leaky(m, e, h) > 0 ? 1 : kSlope;
          of_own += gradient;
        }
        ASSERT_NEAR(found.alpha.get(e * H + h), alpha, 1e-6) << "edge " << e;
        ASSERT_NEAR(found.dst.get(e * H + h), gradient, 1e-5) << "edge " << e;
      }
      if (found.call.scores == nullptr) {
        ASSERT_NEAR(found.dst_own.get(m * H + h), of_own, 1e-5) << "row " << m;
      }
    }
  }
}

TEST_P(EdgeSoftmaxTest, EveryNumberOfHeads) {
  std::mt19937 random(1);
  for (const DataType type : {DataType::f32, DataType::f64}) {
    for (int64_t H = 1; H <= 40; H = H < 18 ? H + 1 : H + 7) {
      for (const bool of_nodes : {false, true}) {
        Case each({2, 0, 0, 7, 1, 30}, 9, type, H % 2 == 0, H, of_nodes, random);
        ASSERT_TRUE(each.run(GetParam().function));
        check(each);
      }
    }
  }
}

TEST_P(EdgeSoftmaxTest, LargeNumbers) {
  std::mt19937 random(2);
  Case each({4}, 4, DataType::f32, true, 1, false, random);
  for (int64_t e = 0; e < 4; ++e) {
    each.scores.set(e, e == 2 ? 1e30 : -1e30);
  }
  ASSERT_TRUE(each.run(GetParam().function));
  for (int64_t e = 0; e < 4; ++e) {
    EXPECT_NEAR(each.alpha.get(e), e == 2 ? 1 : 0, 1e-30);
  }
}

TEST_P(EdgeSoftmaxTest, SameBitsOnAnyNumberOfThreads) {
  std::mt19937 random(3);
  Case each({50000, 1, 0, 30000, 20}, 50, DataType::f32, false, 3, true, random);
  ASSERT_TRUE(each.run(GetParam().function));
  const auto of_edges = each.dst.bytes, of_own = each.dst_own.bytes;
  for (int count = 2; count <= 4; ++count) {
    const Threads threads(count);
    ASSERT_TRUE(each.run(GetParam().function));
    EXPECT_EQ(each.dst.bytes, of_edges);
    EXPECT_EQ(each.dst_own.bytes, of_own);
  }
  each.matrix.narrow_crow[1] = -1;
  EXPECT_FALSE(each.run(GetParam().function));
}

// Rows of more edges than a piece of work has are cut into parts.
TEST_P(EdgeSoftmaxTest, LongRows) {
  std::mt19937 random(4);
  for (const int64_t H : {3, 8}) {
    for (const bool of_nodes : {false, true}) {
      Case each({3, 40000, 0, 1, 25000, 20}, 50, DataType::f64, H == 3, H, of_nodes, random);
      ASSERT_TRUE(each.run(GetParam().function));
      check(each);
      const auto of_edges = each.dst.bytes, of_own = each.dst_own.bytes;
      const Threads threads(7);
      ASSERT_TRUE(each.run(GetParam().function));
      EXPECT_EQ(each.dst.bytes, of_edges);
      EXPECT_EQ(each.dst_own.bytes, of_own);
    }
  }
}

TEST_P(EdgeSoftmaxTest, LongRowsBySource) {
  std::mt19937 random(5);
  Case each({3, 40000, 0, 1, 25000, 20}, 50, DataType::f64, true, 3, false, random);
  GuardedVector<int64_t> perm(static_cast<size_t>(each.matrix.nnz()));
  std::iota(perm.rbegin(), perm.rend(), 0);
  Elements sums(DataType::f64, each.matrix.M * 3);
  auto call = each.call;
  call.step = EdgeSoftmaxStep::by_source;
  call.perm = perm.data();
  call.dst = sums.bytes.data();
  ASSERT_TRUE(edge_softmax(call, GetParam().function));
  for (int64_t n = 0; n < each.matrix.M; ++n) {
    for (int64_t h = 0; h < 3; ++h) {
      double sum = 0;
      for (auto i = each.matrix.crow[static_cast<size_t>(n)];
           i < each.matrix.crow[static_cast<size_t>(n) + 1]; ++i) {
        sum += each.scores.get(perm[static_cast<size_t>(i)] * 3 + h);
      }
      ASSERT_NEAR(sums.get(n * 3 + h), sum, 1e-9) << "row " << n;
    }
  }
  const auto serial = sums.bytes;
  const Threads threads(5);
  ASSERT_TRUE(edge_softmax(call, GetParam().function));
  EXPECT_EQ(sums.bytes, serial);
}

TEST(EdgeSoftmaxList, EndsInRef) { EXPECT_EQ(edge_softmax_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
