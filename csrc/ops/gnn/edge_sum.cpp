// cpuaccel::edge_sum and cpuaccel::edge_dot: sums over a node's edges (SpMM), and their derivatives
// with respect to edge weights (SDDMM). Each is the other's derivative, so both have derivatives of
// any order.
//
//   edge_sum(x, edges, weight, rows, false, mean)[m] = sum over e from n to m of w[e] * x[n]
//   edge_sum(x, edges, weight, rows, true, mean)[n]  = sum over e from n to m of w[e] * x[m]
//   edge_dot(a, b, edges, mean)[e]                   = sum over k of a[m,k] * b[n,k]
//
// weight and edge_dot have one value for each edge, in the order of `edges`; no weight means ones.
// With `mean`, all three divide the values of m's edges by their number. x, a and b are 2-d,
// float32 or float64. Sums have the same bits on any number of threads.

#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include <array>
#include <optional>

#include "kernels/sddmm/sddmm.h"
#include "kernels/spmm/spmm.h"
#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/edges.h"
#include "ops/kernel_call.h"
#include "ops/tensor_cache.h"

namespace cpuaccel::ops {
namespace {

constexpr const char* kSum = "cpuaccel::edge_sum";
constexpr const char* kDot = "cpuaccel::edge_dot";

using OptionalTensor = std::optional<at::Tensor>;

// The weights in the order of `by_nodes`, divided by the number of edges of their destination node
// if `mean`. Without weights they depend on the edges alone, and are cached.
at::Tensor weights_by_source(const Edges& edges, const EdgesBySource& by_nodes,
                             const at::Tensor& weight, at::ScalarType type, bool mean) {
  const auto make = [&] {
    at::Tensor values = at::detail::empty_cpu({edges.csr.nnz}, type);
    kernels::csr_columns_values(edges.csr, by_nodes.columns,
                                weight.defined() ? weight.const_data_ptr() : nullptr,
                                data_type(type), mean, values.mutable_data_ptr());
    return values;
  };
  if (weight.defined()) {
    return make();
  }
  return index_cache().get({}, -1 - static_cast<int64_t>(type), make, &by_nodes.indices);
}

at::Tensor edge_sum(const at::Tensor& x, const at::Tensor& edges, const OptionalTensor& weight,
                    int64_t rows, bool transposed, bool mean) {
  check_rows(kSum, "x", x, x.scalar_type());
  const auto graph =
      transposed ? edges_in(kSum, edges, rows, x.size(0)) : edges_in(kSum, edges, x.size(0), rows);
  at::Tensor values;
  if (weight && weight->defined()) {
    check_dense(kSum, "weight", *weight, x.scalar_type(), {graph.csr.nnz});
    values = weight->contiguous();
  }
  const at::Tensor src = x.contiguous();
  at::Tensor dst = at::detail::empty_cpu({rows, x.size(1)}, x.scalar_type());
  CPUACCEL_KERNEL_CALL(edge_sum);
  kernels::SpmmCall call;
  call.csr = graph.csr;
  call.K = src.size(1);
  call.type = data_type(src.scalar_type());
  call.src = src.const_data_ptr();
  call.src_stride = call.K;
  call.dst = dst.mutable_data_ptr();
  EdgesBySource by_nodes;
  if (transposed) {
    by_nodes = by_source(kSum, graph);
    call.csr = by_nodes.csr;
    if (values.defined() || mean) {
      values = weights_by_source(graph, by_nodes, values, x.scalar_type(), mean);
    }
  } else if (mean) {
    call.reduce = kernels::Reduce::mean;
  }
  call.values = values.defined() ? values.const_data_ptr() : nullptr;
  check_edges_are_valid(kSum, kernels::spmm(call) == kernels::CsrFault::none);
  return dst;
}

at::Tensor edge_dot(const at::Tensor& a, const at::Tensor& b, const at::Tensor& edges, bool mean) {
  check_rows(kDot, "a", a, a.scalar_type());
  check_rows(kDot, "b", b, b.scalar_type());
  TORCH_CHECK(a.scalar_type() == b.scalar_type() && a.size(1) == b.size(1), kDot,
              ": expected a and b of one dtype and number of features, but got ", a.scalar_type(),
              " of shape ", a.sizes(), " and ", b.scalar_type(), " of shape ", b.sizes());
  const auto graph = edges_in(kDot, edges, b.size(0), a.size(0));
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  at::Tensor dst = at::detail::empty_cpu({graph.csr.nnz}, a.scalar_type());
  CPUACCEL_KERNEL_CALL(edge_dot);
  kernels::SddmmCall call;
  call.csr = graph.csr;
  call.K = a.size(1);
  call.type = data_type(a.scalar_type());
  call.mean = mean;
  call.a = left.const_data_ptr();
  call.b = right.const_data_ptr();
  call.a_stride = call.b_stride = call.K;
  call.dst = dst.mutable_data_ptr();
  check_edges_are_valid(kDot, kernels::sddmm(call) == kernels::CsrFault::none);
  return dst;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "edge_sum(Tensor x, Tensor edges, Tensor? weight, SymInt rows, bool transposed=False, bool "
      "mean=False) -> Tensor");
  library.def("edge_dot(Tensor a, Tensor b, Tensor edges, bool mean=False) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("edge_sum", edge_sum);
  library.impl("edge_dot", edge_dot);
}

}  // namespace cpuaccel::ops
