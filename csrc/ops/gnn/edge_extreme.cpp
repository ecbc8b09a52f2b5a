// cpuaccel::edge_extreme: max or min aggregation of the messages of a node's edges, and its
// derivatives.
//
//   dst[m,k] = max (or min) over e from n to m of w[e] * x[n,k]; 0 for nodes without edges
//
// This is torch.zeros(rows, K).scatter_reduce(0, ..., "amax", include_self=False) of the messages,
// with the same gradients: ties share the gradient, and a dst of 0 takes a share itself. weight has
// one value for each edge, in the order of `edges`. x is 2-d, float32 or float64.

#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>

#include "kernels/spmm/spmm.h"
#include "kernels/spmm_amax_grad/spmm_amax_grad.h"
#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/edges.h"
#include "ops/kernel_call.h"

namespace cpuaccel::ops {
namespace {

constexpr const char* kExtreme = "cpuaccel::edge_extreme";
constexpr const char* kExtremeBackward = "cpuaccel::edge_extreme_backward";

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor values_of(const char* op, const OptionalTensor& weight, at::ScalarType type,
                     int64_t count) {
  if (!weight || !weight->defined()) {
    return {};
  }
  check_dense(op, "weight", *weight, type, {count});
  return weight->contiguous();
}

at::Tensor edge_extreme(const at::Tensor& x, const at::Tensor& edges, const OptionalTensor& weight,
                        int64_t rows, bool smallest) {
  check_rows(kExtreme, "x", x, x.scalar_type());
  const auto graph = edges_in(kExtreme, edges, x.size(0), rows);
  const at::Tensor values = values_of(kExtreme, weight, x.scalar_type(), graph.csr.nnz);
  const at::Tensor src = x.contiguous();
  at::Tensor dst = at::detail::empty_cpu({rows, x.size(1)}, x.scalar_type());
  CPUACCEL_KERNEL_CALL(edge_extreme);
  kernels::SpmmCall call;
  call.csr = graph.csr;
  call.K = src.size(1);
  call.type = data_type(src.scalar_type());
  call.reduce = smallest ? kernels::Reduce::amin : kernels::Reduce::amax;
  call.values = values.defined() ? values.const_data_ptr() : nullptr;
  call.src = src.const_data_ptr();
  call.src_stride = call.K;
  call.dst = dst.mutable_data_ptr();
  check_edges_are_valid(kExtreme, kernels::spmm(call) == kernels::CsrFault::none);
  return dst;
}

// The gradients of x and of weight; one that is not requested has no elements.
std::tuple<at::Tensor, at::Tensor> edge_extreme_backward(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& edges,
    const OptionalTensor& weight, const at::Tensor& dst, bool of_x, bool of_weight) {
  const auto type = x.scalar_type();
  check_rows(kExtremeBackward, "x", x, type);
  check_rows(kExtremeBackward, "grad", grad, type);
  check_rows(kExtremeBackward, "dst", dst, type);
  TORCH_CHECK(grad.sizes() == dst.sizes() && grad.size(1) == x.size(1), kExtremeBackward,
              ": expected grad and dst of one shape and the features of x, but got ", grad.sizes(),
              ", ", dst.sizes(), " and ", x.sizes());
  const auto graph = edges_in(kExtremeBackward, edges, x.size(0), dst.size(0));
  const at::Tensor values = values_of(kExtremeBackward, weight, type, graph.csr.nnz);
  // Checks every index.
  const auto by_nodes = by_source(kExtremeBackward, graph);
  const at::Tensor src = x.contiguous(), result = dst.contiguous(), of_result = grad.contiguous();
  const auto made = [&](bool wanted, at::IntArrayRef sizes) {
    constexpr std::array<int64_t, 1> kNone{0};
    return at::detail::empty_cpu(wanted ? sizes : at::IntArrayRef(kNone), type);
  };
  at::Tensor grad_x = made(of_x, x.sizes());
  at::Tensor grad_weight = made(of_weight, {graph.csr.nnz});
  at::Tensor share = made(true, dst.sizes());
  if (of_weight && x.size(1) == 0) {
    grad_weight.zero_();
  }
  CPUACCEL_KERNEL_CALL(edge_extreme_backward);
  kernels::SpmmAmaxGradCall call;
  call.csr = graph.csr;
  call.columns = by_nodes.columns;
  call.K = x.size(1);
  call.type = data_type(type);
  call.values = values.defined() ? values.const_data_ptr() : nullptr;
  call.src = src.const_data_ptr();
  call.dst = result.const_data_ptr();
  call.grad = of_result.const_data_ptr();
  call.share = share.mutable_data_ptr();
  call.grad_src = of_x ? grad_x.mutable_data_ptr() : nullptr;
  call.grad_values = of_weight ? grad_weight.mutable_data_ptr() : nullptr;
  kernels::spmm_amax_grad(call);
  return {grad_x, grad_weight};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "edge_extreme(Tensor x, Tensor edges, Tensor? weight, SymInt rows, bool smallest=False) -> "
      "Tensor");
  library.def(
      "edge_extreme_backward(Tensor grad, Tensor x, Tensor edges, Tensor? weight, Tensor dst, bool "
      "of_x, bool of_weight) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("edge_extreme", edge_extreme);
  library.impl("edge_extreme_backward", edge_extreme_backward);
}

}  // namespace cpuaccel::ops
