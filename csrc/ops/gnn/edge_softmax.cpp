// cpuaccel::edge_softmax and gat_alpha: softmax over the edges that end in each node, of the edges'
// scores, or of leaky(src[n] + dst[m]), the scores of a GAT layer.
// kernels/edge_softmax/edge_softmax.h has the formulas. Tensors of edges are [E, heads], in the
// order of `edges`.

#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include <tuple>

#include "kernels/edge_softmax/edge_softmax.h"
#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/edges.h"
#include "ops/kernel_call.h"

namespace cpuaccel::ops {
namespace {

using kernels::EdgeSoftmaxCall;
using kernels::EdgeSoftmaxStep;

constexpr const char* kSoftmax = "cpuaccel::edge_softmax";
constexpr const char* kSoftmaxBackward = "cpuaccel::edge_softmax_backward";
constexpr const char* kAlpha = "cpuaccel::gat_alpha";
constexpr const char* kAlphaBackward = "cpuaccel::gat_alpha_backward";

EdgeSoftmaxCall softmax_call(const Edges& graph, const at::Tensor& x, EdgeSoftmaxStep step) {
  EdgeSoftmaxCall call;
  call.step = step;
  call.csr = graph.csr;
  call.H = x.size(1);
  call.type = data_type(x.scalar_type());
  return call;
}

void run_checked(const char* op, const EdgeSoftmaxCall& call) {
  check_edges_are_valid(op, kernels::edge_softmax(call));
}

at::Tensor edge_softmax(const at::Tensor& scores, const at::Tensor& edges, int64_t num_src,
                        int64_t num_dst) {
  check_rows(kSoftmax, "scores", scores, scores.scalar_type());
  const auto graph = edges_in(kSoftmax, edges, num_src, num_dst);
  check_dense(kSoftmax, "scores", scores, scores.scalar_type(), {graph.csr.nnz, scores.size(1)});
  at::Tensor alpha = at::detail::empty_cpu(scores.sizes(), scores.scalar_type());
  if (alpha.numel() == 0) {
    return alpha;
  }
  CPUACCEL_KERNEL_CALL(edge_softmax);
  const at::Tensor from = scores.contiguous();
  auto call = softmax_call(graph, scores, EdgeSoftmaxStep::softmax);
  call.scores = from.const_data_ptr();
  call.dst = alpha.mutable_data_ptr();
  run_checked(kSoftmax, call);
  return alpha;
}

at::Tensor edge_softmax_backward(const at::Tensor& grad, const at::Tensor& alpha,
                                 const at::Tensor& edges, int64_t num_src, int64_t num_dst) {
  check_rows(kSoftmaxBackward, "alpha", alpha, alpha.scalar_type());
  const auto graph = edges_in(kSoftmaxBackward, edges, num_src, num_dst);
  check_dense(kSoftmaxBackward, "alpha", alpha, alpha.scalar_type(),
              {graph.csr.nnz, alpha.size(1)});
  check_dense(kSoftmaxBackward, "grad", grad, alpha.scalar_type(), alpha.sizes());
  at::Tensor of_scores = at::detail::empty_cpu(alpha.sizes(), alpha.scalar_type());
  if (alpha.numel() == 0) {
    return of_scores;
  }
  CPUACCEL_KERNEL_CALL(edge_softmax_backward);
  const at::Tensor weights = alpha.contiguous(), from = grad.contiguous();
  auto call = softmax_call(graph, alpha, EdgeSoftmaxStep::gradient);
  call.alpha = weights.const_data_ptr();
  call.grad = from.const_data_ptr();
  call.dst = of_scores.mutable_data_ptr();
  run_checked(kSoftmaxBackward, call);
  return of_scores;
}

Edges check_terms(const char* op, const at::Tensor& src, const at::Tensor& dst,
                  const at::Tensor& edges) {
  check_rows(op, "src", src, src.scalar_type());
  check_dense(op, "dst", dst, src.scalar_type(), {dst.size(0), src.size(1)});
  return edges_in(op, edges, src.size(0), dst.size(0));
}

at::Tensor gat_alpha(const at::Tensor& src, const at::Tensor& dst, const at::Tensor& edges,
                     double slope) {
  const auto graph = check_terms(kAlpha, src, dst, edges);
  at::Tensor alpha = at::detail::empty_cpu({graph.csr.nnz, src.size(1)}, src.scalar_type());
  if (alpha.numel() == 0) {
    return alpha;
  }
  CPUACCEL_KERNEL_CALL(gat_alpha);
  by_source(kAlpha, graph);  // checks every index
  const at::Tensor from = src.contiguous(), own = dst.contiguous();
  auto call = softmax_call(graph, src, EdgeSoftmaxStep::softmax);
  call.slope = slope;
  call.src = from.const_data_ptr();
  call.own = own.const_data_ptr();
  call.dst = alpha.mutable_data_ptr();
  kernels::edge_softmax(call);
  return alpha;
}

std::tuple<at::Tensor, at::Tensor> gat_alpha_backward(const at::Tensor& grad,
                                                      const at::Tensor& alpha,
                                                      const at::Tensor& src, const at::Tensor& dst,
                                                      const at::Tensor& edges, double slope) {
  const auto graph = check_terms(kAlphaBackward, src, dst, edges);
  const auto type = src.scalar_type();
  check_dense(kAlphaBackward, "alpha", alpha, type, {graph.csr.nnz, src.size(1)});
  check_dense(kAlphaBackward, "grad", grad, type, alpha.sizes());
  at::Tensor of_src = at::detail::empty_cpu(src.sizes(), type);
  at::Tensor of_dst = at::detail::empty_cpu(dst.sizes(), type);
  if (alpha.numel() == 0) {
    return {of_src.zero_(), of_dst.zero_()};
  }
  CPUACCEL_KERNEL_CALL(gat_alpha_backward);
  const auto by_nodes = by_source(kAlphaBackward, graph);
  const at::Tensor from = src.contiguous(), own = dst.contiguous();
  const at::Tensor weights = alpha.contiguous(), of_alpha = grad.contiguous();
  at::Tensor terms = at::detail::empty_cpu(alpha.sizes(), type);
  auto call = softmax_call(graph, src, EdgeSoftmaxStep::gradient);
  call.slope = slope;
  call.src = from.const_data_ptr();
  call.own = own.const_data_ptr();
  call.alpha = weights.const_data_ptr();
  call.grad = of_alpha.const_data_ptr();
  call.dst = terms.mutable_data_ptr();
  call.dst_own = of_dst.mutable_data_ptr();
  kernels::edge_softmax(call);
  call = softmax_call(graph, src, EdgeSoftmaxStep::by_source);
  call.csr = by_nodes.csr;
  call.perm = by_nodes.columns.perm;
  call.scores = terms.const_data_ptr();
  call.dst = of_src.mutable_data_ptr();
  kernels::edge_softmax(call);
  return {of_src, of_dst};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "edge_softmax(Tensor scores, Tensor edges, SymInt num_src, SymInt num_dst) -> Tensor");
  library.def(
      "edge_softmax_backward(Tensor grad, Tensor alpha, Tensor edges, SymInt num_src, SymInt "
      "num_dst) -> Tensor");
  library.def("gat_alpha(Tensor src, Tensor dst, Tensor edges, float slope) -> Tensor");
  library.def(
      "gat_alpha_backward(Tensor grad, Tensor alpha, Tensor src, Tensor dst, Tensor edges, float "
      "slope) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("edge_softmax", edge_softmax);
  library.impl("edge_softmax_backward", edge_softmax_backward);
  library.impl("gat_alpha", gat_alpha);
  library.impl("gat_alpha_backward", gat_alpha_backward);
}

}  // namespace cpuaccel::ops
