#include "guarded.h"
#include "kernels/edge_heads/edge_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "emulated.h"
#include "kernel_rows.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kSteps{EdgeHeadsStep::sum, EdgeHeadsStep::dot, EdgeHeadsStep::sum_dot,
                            EdgeHeadsStep::score, EdgeHeadsStep::score_grad};

constexpr bool weighs(EdgeHeadsStep step) {
  return step == EdgeHeadsStep::sum || step == EdgeHeadsStep::sum_dot;
}
constexpr bool writes_edges(EdgeHeadsStep step) {
  return step != EdgeHeadsStep::sum && step != EdgeHeadsStep::score_grad;
}
constexpr bool writes_nodes(EdgeHeadsStep step) {
  return weighs(step) || step == EdgeHeadsStep::score_grad;
}

class EdgeHeadsTest : public testing::TestWithParam<KernelRow<EdgeHeadsFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, EdgeHeadsTest, testing::ValuesIn(usable_rows(edge_heads_kernels())),
                         RowName());

struct Case {
  Case(const GuardedVector<int64_t>& lengths, int64_t sources, DataType type, bool wide, int64_t H,
       int64_t C, std::mt19937& random)
      : matrix(lengths, sources, wide, random),
        K(H * C),
        weights(type, normal_numbers(matrix.nnz() * H, random)),
        own(type, normal_numbers(matrix.M * K, random)),
        src(type, normal_numbers(sources * K, random)),
        att(type, normal_numbers(K, random)),
        of_edges(type, matrix.nnz() * H),
        of_nodes(type, matrix.M * K),
        of_att(type, matrix.M * K),
        perm(static_cast<size_t>(matrix.nnz())) {
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), random);
    narrow_perm.assign(perm.begin(), perm.end());
    call.csr = matrix.csr();
    call.perm = wide ? static_cast<const void*>(perm.data()) : narrow_perm.data();
    call.H = H;
    call.C = C;
    call.type = type;
    call.slope = 0.25;
    call.weights = weights.bytes.data();
    call.own = own.bytes.data();
    call.src = src.bytes.data();
    call.att = att.bytes.data();
    call.dst_att = of_att.bytes.data();
    call.dst_dot = of_edges.bytes.data();
  }
  void run(EdgeHeadsStep step, EdgeHeadsFunction* function) {
    call.step = step;
    call.dst = writes_nodes(step) ? of_nodes.bytes.data() : of_edges.bytes.data();
    edge_heads(call, function);
  }

  RandomCsr matrix;
  int64_t K;
  Elements weights, own, src, att, of_edges, of_nodes, of_att;
  GuardedVector<int64_t> perm;
  GuardedVector<int32_t> narrow_perm;
  EdgeHeadsCall call;
};

void check(Case& found, EdgeHeadsStep step) {
  const auto& a = found.matrix;
  const int64_t H = found.call.H, C = found.call.C, K = found.K;
  for (int64_t m = 0; m < a.M; ++m) {
    GuardedVector<double> sums(static_cast<size_t>(K)), of_att(static_cast<size_t>(K));
    for (auto e = a.crow[static_cast<size_t>(m)]; e < a.crow[static_cast<size_t>(m) + 1]; ++e) {
      const auto n = a.col[static_cast<size_t>(e)], p = found.perm[static_cast<size_t>(e)];
      for (int64_t h = 0; h < H; ++h) {
        double dot = 0, score = 0;
        for (int64_t k = h * C; k < (h + 1) * C; ++k) {
          const double mine = found.own.get(m * K + k), x = found.src.get(n * K + k);
          const double w = found.weights.get(p * H + h), factor = found.att.get(k);
          const double steep = mine + x > 0 ? 1 : 0.25;
          dot += mine * x;
          score += factor * steep * (mine + x);
          sums[static_cast<size_t>(k)] += weighs(step) ? w * x : w * factor * steep;
          of_att[static_cast<size_t>(k)] += w * steep * (mine + x);
        }
        if (writes_edges(step)) {
          const double expected = step == EdgeHeadsStep::score ? score : dot;
          ASSERT_NEAR(found.of_edges.get(p * H + h), expected, 1e-4) << "edge " << p;
        }
      }
    }
    for (int64_t k = 0; k < K; ++k) {
      const auto at = static_cast<size_t>(k);
      if (writes_nodes(step)) {
        ASSERT_NEAR(found.of_nodes.get(m * K + k), sums[at], 2e-4) << m << ", " << k;
      }
      if (step == EdgeHeadsStep::score_grad) {
        ASSERT_NEAR(found.of_att.get(m * K + k), of_att[at], 2e-4) << m << ", " << k;
      }
    }
  }
}

TEST_P(EdgeHeadsTest, EveryWidth) {
  std::mt19937 random(1);
  for (const DataType type : {DataType::f32, DataType::f64}) {
    for (const int64_t H : {1, 2, 5, 8}) {
      for (int64_t C = 1; C <= 70; C = C < 34 ? C + every(3) : C + 9) {
        Case each({2, 0, 0, 7, 1, 20}, 9, type, C % 2 == 0, H, C, random);
        for (const auto step : kSteps) {
          each.run(step, GetParam().function);
          check(each, step);
        }
      }
    }
  }
}

TEST_P(EdgeHeadsTest, SameBitsOnAnyNumberOfThreads) {
  std::mt19937 random(2);
  Case each({5000, 1, 0, 3000, 20}, 50, DataType::f32, false, 3, 10, random);
  for (const auto step : kSteps) {
    each.run(step, GetParam().function);
    const auto of_edges = each.of_edges.bytes, of_nodes = each.of_nodes.bytes;
    for (int count = 2; count <= 4; ++count) {
      const Threads threads(count);
      each.run(step, GetParam().function);
      EXPECT_EQ(each.of_edges.bytes, of_edges);
      EXPECT_EQ(each.of_nodes.bytes, of_nodes);
    }
  }
}

// Rows of more edges than a piece of work has are cut into parts.
TEST_P(EdgeHeadsTest, LongRows) {
  std::mt19937 random(3);
  Case each({3, 30000, 0, 1, 20000, 20}, 50, DataType::f64, true, 3, 10, random);
  for (const auto step : kSteps) {
    each.run(step, GetParam().function);
    check(each, step);
    const auto of_edges = each.of_edges.bytes, of_nodes = each.of_nodes.bytes;
    const auto of_att = each.of_att.bytes;
    const Threads threads(7);
    each.run(step, GetParam().function);
    EXPECT_EQ(each.of_edges.bytes, of_edges);
    EXPECT_EQ(each.of_nodes.bytes, of_nodes);
    EXPECT_EQ(each.of_att.bytes, of_att);
  }
}

TEST(EdgeHeadsList, EndsInRef) { EXPECT_EQ(edge_heads_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
