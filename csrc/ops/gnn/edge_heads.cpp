// Aggregation and scores of multi-head attention layers of graph networks (GAT, GATv2).
// kernels/edge_heads/edge_heads.h has the formulas.
//
//   edge_sum_heads(x, edges, weight, rows, transposed)  `sum`; transposed: over edges by source
//   edge_dot_heads(a, b, edges, heads)                  `dot`; each is the other's derivative
//   edge_sum_heads_backward(grad, x, edges, weight, transposed)
//       `sum_dot`: both derivatives of edge_sum_heads, reading the rows of grad once
//   gatv2_scores(src, dst, att, edges, slope)           `score`, with own = dst
//   gatv2_scores_backward(...)                          its derivatives by src, dst and att
//
// Features are [nodes, heads * columns]. Tensors of edges are [E, heads], in the order of `edges`.

#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "base/parallel.h"
#include "kernels/edge_heads/edge_heads.h"
#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/edges.h"
#include "ops/kernel_call.h"

namespace cpuaccel::ops {
namespace {

using kernels::EdgeHeadsCall;
using kernels::EdgeHeadsStep;

constexpr const char* kSumHeads = "cpuaccel::edge_sum_heads";
constexpr const char* kSumHeadsBackward = "cpuaccel::edge_sum_heads_backward";
constexpr const char* kDotHeads = "cpuaccel::edge_dot_heads";
constexpr const char* kScores = "cpuaccel::gatv2_scores";
constexpr const char* kScoresBackward = "cpuaccel::gatv2_scores_backward";

int64_t columns_of(const char* op, const at::Tensor& x, int64_t heads) {
  TORCH_CHECK(heads > 0 && x.size(1) % heads == 0, op, ": expected features of ", heads,
              " heads, but got shape ", x.sizes());
  return x.size(1) / heads;
}

// For the edges as they are, or by source if `transposed`. Their indices have been checked.
EdgeHeadsCall heads_call(const EdgesBySource& by_nodes, const Edges& graph, bool transposed,
                         int64_t heads, int64_t columns, at::ScalarType type) {
  EdgeHeadsCall call;
  call.csr = transposed ? by_nodes.csr : graph.csr;
  call.perm = transposed ? by_nodes.columns.perm : nullptr;
  call.H = heads;
  call.C = columns;
  call.type = data_type(type);
  return call;
}

void run_step(EdgeHeadsCall& call, EdgeHeadsStep step) {
  call.step = step;
  kernels::edge_heads(call);
}

at::Tensor edge_sum_heads(const at::Tensor& x, const at::Tensor& edges, const at::Tensor& weight,
                          int64_t rows, bool transposed) {
  check_rows(kSumHeads, "x", x, x.scalar_type());
  const auto graph = transposed ? edges_in(kSumHeads, edges, rows, x.size(0))
                                : edges_in(kSumHeads, edges, x.size(0), rows);
  const int64_t heads = weight.dim() == 2 ? weight.size(1) : 0;
  const int64_t columns = columns_of(kSumHeads, x, heads);
  check_dense(kSumHeads, "weight", weight, x.scalar_type(), {graph.csr.nnz, heads});
  at::Tensor dst = at::detail::empty_cpu({rows, x.size(1)}, x.scalar_type());
  if (dst.numel() == 0) {
    return dst;
  }
  CPUACCEL_KERNEL_CALL(edge_sum_heads);
  const auto by_nodes = by_source(kSumHeads, graph);
  const at::Tensor src = x.contiguous(), weights = weight.contiguous();
  auto call = heads_call(by_nodes, graph, transposed, heads, columns, x.scalar_type());
  call.weights = weights.const_data_ptr();
  call.src = src.const_data_ptr();
  call.dst = dst.mutable_data_ptr();
  run_step(call, EdgeHeadsStep::sum);
  return dst;
}

std::tuple<at::Tensor, at::Tensor> edge_sum_heads_backward(const at::Tensor& grad,
                                                           const at::Tensor& x,
                                                           const at::Tensor& edges,
                                                           const at::Tensor& weight,
                                                           bool transposed) {
  const auto type = x.scalar_type();
  check_rows(kSumHeadsBackward, "x", x, type);
  check_dense(kSumHeadsBackward, "grad", grad, type, {grad.size(0), x.size(1)});
  const auto graph = transposed ? edges_in(kSumHeadsBackward, edges, grad.size(0), x.size(0))
                                : edges_in(kSumHeadsBackward, edges, x.size(0), grad.size(0));
  const int64_t heads = weight.dim() == 2 ? weight.size(1) : 0;
  const int64_t columns = columns_of(kSumHeadsBackward, x, heads);
  check_dense(kSumHeadsBackward, "weight", weight, type, {graph.csr.nnz, heads});
  at::Tensor of_x = at::detail::empty_cpu(x.sizes(), type);
  at::Tensor of_weight = at::detail::empty_cpu(weight.sizes(), type);
  if (x.numel() == 0) {
    return {of_x, of_weight.zero_()};
  }
  CPUACCEL_KERNEL_CALL(edge_sum_heads_backward);
  const auto by_nodes = by_source(kSumHeadsBackward, graph);
  const at::Tensor own = x.contiguous(), src = grad.contiguous(), weights = weight.contiguous();
  auto call = heads_call(by_nodes, graph, !transposed, heads, columns, type);
  call.weights = weights.const_data_ptr();
  call.own = own.const_data_ptr();
  call.src = src.const_data_ptr();
  call.dst = of_x.mutable_data_ptr();
  call.dst_dot = of_weight.mutable_data_ptr();
  run_step(call, EdgeHeadsStep::sum_dot);
  return {of_x, of_weight};
}

at::Tensor edge_dot_heads(const at::Tensor& a, const at::Tensor& b, const at::Tensor& edges,
                          int64_t heads) {
  check_rows(kDotHeads, "a", a, a.scalar_type());
  check_dense(kDotHeads, "b", b, a.scalar_type(), {b.size(0), a.size(1)});
  const auto graph = edges_in(kDotHeads, edges, b.size(0), a.size(0));
  const int64_t columns = columns_of(kDotHeads, a, heads);
  at::Tensor dst = at::detail::empty_cpu({graph.csr.nnz, heads}, a.scalar_type());
  if (columns == 0) {
    return dst.zero_();
  }
  CPUACCEL_KERNEL_CALL(edge_dot_heads);
  const auto by_nodes = by_source(kDotHeads, graph);
  const at::Tensor own = a.contiguous(), src = b.contiguous();
  auto call = heads_call(by_nodes, graph, false, heads, columns, a.scalar_type());
  call.own = own.const_data_ptr();
  call.src = src.const_data_ptr();
  call.dst = dst.mutable_data_ptr();
  run_step(call, EdgeHeadsStep::dot);
  return dst;
}

// src and dst [nodes, heads * columns], att [heads, columns].
Edges check_gatv2(const char* op, const at::Tensor& src, const at::Tensor& dst,
                  const at::Tensor& att, const at::Tensor& edges) {
  check_rows(op, "src", src, src.scalar_type());
  check_dense(op, "dst", dst, src.scalar_type(), {dst.size(0), src.size(1)});
  TORCH_CHECK(att.dim() == 2 && att.numel() > 0, op,
              ": expected att of shape [heads, columns], but got ", att.sizes());
  check_dense(op, "att", att, src.scalar_type(), {att.size(0), src.size(1) / att.size(0)});
  return edges_in(op, edges, src.size(0), dst.size(0));
}

at::Tensor gatv2_scores(const at::Tensor& src, const at::Tensor& dst, const at::Tensor& att,
                        const at::Tensor& edges, double slope) {
  const auto graph = check_gatv2(kScores, src, dst, att, edges);
  CPUACCEL_KERNEL_CALL(gatv2_scores);
  const auto by_nodes = by_source(kScores, graph);
  const at::Tensor from = src.contiguous(), own = dst.contiguous(), factors = att.contiguous();
  at::Tensor scores = at::detail::empty_cpu({graph.csr.nnz, att.size(0)}, src.scalar_type());
  auto call = heads_call(by_nodes, graph, false, att.size(0), att.size(1), src.scalar_type());
  call.slope = slope;
  call.own = own.const_data_ptr();
  call.src = from.const_data_ptr();
  call.att = factors.const_data_ptr();
  call.dst = scores.mutable_data_ptr();
  run_step(call, EdgeHeadsStep::score);
  return scores;
}

// dst += the sum of the rows, in their order.
template <typename Number>
void add_rows(const at::Tensor& rows, const at::Tensor& dst) {
  const auto* from = rows.const_data_ptr<Number>();
  auto* to = dst.mutable_data_ptr<Number>();
  const int64_t K = rows.size(1);
  parallel_for(0, K, std::max<int64_t>(1, (1 << 16) / (rows.size(0) + 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t m = 0; m < rows.size(0); ++m) {
                   for (int64_t k = begin; k < end; ++k) {
                     to[k] += from[m * K + k];
                   }
                 }
               });
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> gatv2_scores_backward(
    const at::Tensor& grad, const at::Tensor& src, const at::Tensor& dst, const at::Tensor& att,
    const at::Tensor& edges, double slope) {
  const auto graph = check_gatv2(kScoresBackward, src, dst, att, edges);
  const auto type = src.scalar_type();
  check_dense(kScoresBackward, "grad", grad, type, {graph.csr.nnz, att.size(0)});
  CPUACCEL_KERNEL_CALL(gatv2_scores_backward);
  const auto by_nodes = by_source(kScoresBackward, graph);
  const at::Tensor from = src.contiguous(), own = dst.contiguous(), factors = att.contiguous();
  const at::Tensor weights = grad.contiguous();
  at::Tensor of_src = at::detail::empty_cpu(src.sizes(), type);
  at::Tensor of_dst = at::detail::empty_cpu(dst.sizes(), type);
  at::Tensor of_att = at::detail::empty_cpu(att.sizes(), type);
  of_att.zero_();
  at::Tensor terms = at::detail::empty_cpu(dst.sizes(), type);
  auto call = heads_call(by_nodes, graph, false, att.size(0), att.size(1), type);
  call.slope = slope;
  call.weights = weights.const_data_ptr();
  call.own = own.const_data_ptr();
  call.src = from.const_data_ptr();
  call.att = factors.const_data_ptr();
  call.dst = of_dst.mutable_data_ptr();
  call.dst_att = terms.mutable_data_ptr();
  run_step(call, EdgeHeadsStep::score_grad);
  type == at::kDouble ? add_rows<double>(terms, of_att) : add_rows<float>(terms, of_att);
  call = heads_call(by_nodes, graph, true, att.size(0), att.size(1), type);
  call.slope = slope;
  call.weights = weights.const_data_ptr();
  call.own = from.const_data_ptr();
  call.src = own.const_data_ptr();
  call.att = factors.const_data_ptr();
  call.dst = of_src.mutable_data_ptr();
  run_step(call, EdgeHeadsStep::score_grad);
  return {of_src, of_dst, of_att};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "edge_sum_heads(Tensor x, Tensor edges, Tensor weight, SymInt rows, bool transposed=False) "
      "-> Tensor");
  library.def(
      "edge_sum_heads_backward(Tensor grad, Tensor x, Tensor edges, Tensor weight, bool "
      "transposed) -> (Tensor, Tensor)");
  library.def("edge_dot_heads(Tensor a, Tensor b, Tensor edges, SymInt heads) -> Tensor");
  library.def(
      "gatv2_scores(Tensor src, Tensor dst, Tensor att, Tensor edges, float slope) -> Tensor");
  library.def(
      "gatv2_scores_backward(Tensor grad, Tensor src, Tensor dst, Tensor att, Tensor edges, float "
      "slope) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("edge_sum_heads", edge_sum_heads);
  library.impl("edge_sum_heads_backward", edge_sum_heads_backward);
  library.impl("edge_dot_heads", edge_dot_heads);
  library.impl("gatv2_scores", gatv2_scores);
  library.impl("gatv2_scores_backward", gatv2_scores_backward);
}

}  // namespace cpuaccel::ops
