// cpuaccel::gcn_sum: normalized neighbor aggregation of a GCN layer from an edge_index, for
// compiled graphs, in which no size may depend on the number of self-loops.
//
// The edges are those of kept_edges, with self-loops on all nodes if `loops`; their weights are
// those of kept_gcn_weight. Both come from the index cache. `transposed` and `mean` are edge_sum's.

#include <torch/library.h>

#include <optional>

#include "ops/gnn/edges.h"
#include "ops/registered_op.h"

namespace cpuaccel::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor gcn_sum(const at::Tensor& x, const at::Tensor& edge_index, const OptionalTensor& weight,
                   bool loops, double fill, bool transposed, bool mean) {
  constexpr const char* kOp = "cpuaccel::gcn_sum";
  check_rows(kOp, "x", x, x.scalar_type());
  static const auto gcn_weight =
      registered_op<at::Tensor(const at::Tensor&, const OptionalTensor&, const at::Tensor&, int64_t,
                               bool, double, at::ScalarType)>("cpuaccel::kept_gcn_weight");
  static const auto edge_sum =
      registered_op<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                               c10::SymInt, bool, bool)>("cpuaccel::edge_sum");
  const int64_t nodes = x.size(0);
  const auto edges = cached_sorted_edges(kOp, edge_index, nodes, nodes,
                                         loops ? std::optional(nodes) : std::nullopt);
  const auto values =
      gcn_weight.call(edge_index, weight, edges, nodes, loops, fill, x.scalar_type());
  return edge_sum.call(x, edges, values, nodes, transposed, mean);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "gcn_sum(Tensor x, Tensor edge_index, Tensor? weight, bool loops, float fill, bool "
      "transposed=False, bool mean=False) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("gcn_sum", gcn_sum); }

}  // namespace cpuaccel::ops
