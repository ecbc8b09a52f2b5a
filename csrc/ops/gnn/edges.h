// Edges of a graph sorted by destination node (CSR): the graph argument of the ops behind
// cpuaccel.gnn.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/csr/csr.h"
#include "kernels/csr/transpose.h"
#include "ops/gnn/index_rule.h"

namespace cpuaccel::ops {

// The sorted edges, one 1-d tensor: crow (num_dst + 1), col and perm (one entry for each edge) of
// kernels/csr/edges.h, in int32 if they fit.
struct Edges {
  kernels::Csr csr;            // destinations x sources
  const void* perm = nullptr;  // entry -> edge
  at::Tensor indices;          // holds all three, contiguous
};

// For such a tensor with `num_dst` destinations: the number of edges; and which edge is at each
// place, as a view.
int64_t edges_count(const at::Tensor& edges, int64_t num_dst);
at::Tensor edge_order(const at::Tensor& edges, int64_t num_dst);

// Checks an edge_index, every end of its edges too, and returns the result of sort_edges.
at::Tensor sorted_edges(const char* op, const at::Tensor& edge_index, int64_t num_src,
                        int64_t num_dst);

// Throw unless `x` is a dense float32 or float64 tensor on the CPU, of this type and: of this shape
// (check_dense), of shape [nodes, features] (check_rows).
void check_dense(const char* op, const char* name, const at::Tensor& x, at::ScalarType type,
                 at::IntArrayRef sizes);
void check_rows(const char* op, const char* name, const at::Tensor& x, at::ScalarType type);

// Sorts the edges from `src` to `dst`, dense tensors of one type. Throws IndexError if an index is
// out of range.
at::Tensor sort_by_destination(const char* op, const at::Tensor& src, const at::Tensor& dst,
                               int64_t num_src, int64_t num_dst);

// The result of cpuaccel::kept_edges. Nobody may write to it.
at::Tensor cached_sorted_edges(const char* op, const at::Tensor& edge_index, int64_t num_src,
                               int64_t num_dst, std::optional<int64_t> loops);

// The same for ends in two tensors, each with the index rule of the op that it belongs to.
at::Tensor cached_sorted_pair(const IndexRule& src_rule, const at::Tensor& src,
                              const IndexRule& dst_rule, const at::Tensor& dst, int64_t num_src,
                              int64_t num_dst);

// The edge weights in the order of such a tensor, from the index cache if `caches`.
at::Tensor weight_in_order(const char* op, const at::Tensor& weight, const at::Tensor& edges,
                           int64_t num_dst, bool caches);

// Views of sorted edges, or of the cached sorted edges of a 2-d edge_index. Throws if the size of
// `edges` does not fit the numbers of nodes. The indices are not checked: kernels check them.
Edges edges_in(const char* op, const at::Tensor& edges, int64_t num_src, int64_t num_dst);

// Throws unless `valid`: a kernel that checked the indices found them in range and sorted.
void check_edges_are_valid(const char* op, bool valid);

// The same edges, sorted by source node.
struct EdgesBySource {
  kernels::Csr csr;  // sources x destinations
  kernels::CsrColumns columns;
  at::Tensor indices;
};

// From the index cache. The key is the storage of `edges`, which nobody writes to. Every index has
// been checked when this returns.
EdgesBySource by_source(const char* op, const Edges& edges);

}  // namespace cpuaccel::ops
