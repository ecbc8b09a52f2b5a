// cpuaccel::edge_values: permutes values of edges from the order of an edge_index to that of sorted
// edges, or back. Each direction is the other's derivative.

#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include "ops/gnn/edges.h"

namespace cpuaccel::ops {
namespace {

at::Tensor edge_values(const at::Tensor& values, const at::Tensor& edge_index, int64_t num_src,
                       int64_t num_dst, bool back) {
  constexpr const char* kOp = "cpuaccel::edge_values";
  const at::Tensor edges = cached_sorted_edges(kOp, edge_index, num_src, num_dst, std::nullopt);
  const int64_t count = edge_index.size(1);
  TORCH_CHECK(values.dim() > 0 && values.size(0) == count, kOp, ": expected values of ", count,
              " edges, but got shape ", values.sizes());
  const at::Tensor order = edge_order(edges, num_dst);
  if (!back) {
    return values.index_select(0, order);
  }
  at::Tensor result = at::detail::empty_cpu(values.sizes(), values.scalar_type());
  return result.index_copy_(0, order.to(at::kLong), values);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "edge_values(Tensor values, Tensor edge_index, SymInt num_src, SymInt num_dst, bool "
      "back=False) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("edge_values", edge_values); }

}  // namespace cpuaccel::ops
