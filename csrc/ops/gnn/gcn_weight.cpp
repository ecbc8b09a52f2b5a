// cpuaccel::kept_gcn_weight: the normalized edge weights of a GCN layer (gcn_norm), in the order of
// `edges`, which kept_edges returned for the same edge_index.
//
//   w[e] / sqrt(deg[src] * deg[dst]),  deg[m] = sum over the edges e that end in m of w[e]
//
// w is 1 if no weight is given. With `loops` each node has a self-loop. Its weight is that of the
// last self-loop of edge_index at the node, or else `fill`. The result is cached in the index
// cache. torch's own ops compute it, in torch_geometric's order.

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <torch/library.h>

#include <limits>
#include <optional>
#include <vector>

#include "ops/gnn/edges.h"
#include "ops/tensor_cache.h"

namespace cpuaccel::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor gcn_weight(const at::Tensor& edge_index, const OptionalTensor& weight, int64_t nodes,
                      bool loops, double fill, at::ScalarType dtype) {
  at::Tensor src = edge_index.select(0, 0).to(at::kLong);
  at::Tensor dst = edge_index.select(0, 1).to(at::kLong);
  const auto options = edge_index.options().dtype(dtype);
  at::Tensor w = weight ? *weight : at::ones({src.numel()}, options);
  if (loops) {
    const at::Tensor not_loops = src.ne(dst).nonzero().flatten();
    at::Tensor of_loops = at::full({nodes}, fill, options);
    if (weight) {
      const at::Tensor self_loops = src.eq(dst).nonzero().flatten();
      of_loops.index_put_({src.index_select(0, self_loops)}, w.index_select(0, self_loops));
    }
    const at::Tensor each = at::arange(nodes, src.options());
    src = at::cat({src.index_select(0, not_loops), each});
    dst = at::cat({dst.index_select(0, not_loops), each});
    w = at::cat({w.index_select(0, not_loops), of_loops});
  }
  at::Tensor root = at::zeros({nodes}, options).scatter_add_(0, dst, w).pow_(-0.5);
  root.masked_fill_(root.eq(std::numeric_limits<double>::infinity()), 0);
  return root.index_select(0, src).mul_(w).mul_(root.index_select(0, dst));
}

at::Tensor kept_gcn_weight(const at::Tensor& edge_index, const OptionalTensor& weight,
                           const at::Tensor& edges, int64_t nodes, bool loops, double fill,
                           at::ScalarType dtype) {
  constexpr const char* kOp = "cpuaccel::kept_gcn_weight";
  const int64_t count = edges_count(edges, nodes);
  TORCH_CHECK(edge_index.dim() == 2 && edge_index.size(0) == 2 && edges.dim() == 1 && count >= 0,
              kOp, ": expected edge_index of shape [2, E] and edges, but got ", edge_index.sizes(),
              " and ", edges.sizes());
  TORCH_CHECK(!weight || (weight->dim() == 1 && weight->size(0) == edge_index.size(1) &&
                          weight->scalar_type() == dtype),
              kOp, ": expected weight to be a tensor of ", dtype, " and shape [",
              edge_index.size(1), "]");
  const auto make = [&] {
    const at::Tensor in_order = gcn_weight(edge_index, weight, nodes, loops, fill, dtype);
    TORCH_CHECK(in_order.numel() == count, kOp, ": expected edges sorted of this edge_index");
    return in_order.index_select(0, edge_order(edges, nodes));
  };
  std::vector<const at::Tensor*> sources{&edge_index};
  if (weight) {
    sources.push_back(&*weight);
  }
  // `fill` is 1 or 2 in practice; results with other values are not cached.
  if (fill != 1 && fill != 2) {
    return make();
  }
  const int64_t form =
      -2 - ((static_cast<int64_t>(dtype) * 2 + (fill == 2 ? 1 : 0)) * 2 + (loops ? 1 : 0));
  return index_cache().get(sources, form, make, &edges);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "kept_gcn_weight(Tensor edge_index, Tensor? weight, Tensor edges, int nodes, bool loops, "
      "float fill, ScalarType dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("kept_gcn_weight", kept_gcn_weight); }

}  // namespace cpuaccel::ops
