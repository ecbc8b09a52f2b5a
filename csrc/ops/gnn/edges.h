// A graph's edges in the order of the nodes that they end in: what the ops of cpuaccel.gnn take.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/csr/csr.h"
#include "kernels/csr/transpose.h"
#include "ops/gnn/index_rule.h"

namespace cpuaccel::ops {

// One tensor of one dimension: crow (destinations + 1), col and perm (an entry for each edge) of
// kernels/csr/edges.h, in 32 bits where these do.
struct Edges {
  kernels::Csr csr;            // destinations x sources
  const void* perm = nullptr;  // entry -> edge
  at::Tensor indices;          // has them all, contiguous
};

// Of such a tensor for `num_dst` destinations: how many edges it has, and which edge is at each
// place, a view of it.
int64_t edges_count(const at::Tensor& edges, int64_t num_dst);
at::Tensor edge_order(const at::Tensor& edges, int64_t num_dst);

// Checks an edge_index, every end of it too, and returns what sort_edges returns.
at::Tensor sorted_edges(const char* op, const at::Tensor& edge_index, int64_t num_src,
                        int64_t num_dst);

// Throw where a tensor is not a dense one on the CPU, of float32 or float64, and of this type and
// shape; of [nodes, features].
void check_dense(const char* op, const char* name, const at::Tensor& x, at::ScalarType type,
                 at::IntArrayRef sizes);
void check_rows(const char* op, const char* name, const at::Tensor& x, at::ScalarType type);

// src and dst, of one type and dense, as such a tensor. Throws IndexError where one is out of
// range.
at::Tensor sort_by_destination(const char* op, const at::Tensor& src, const at::Tensor& dst,
                               int64_t num_src, int64_t num_dst);

// What cpuaccel::kept_edges returns. Nobody may write to it.
at::Tensor kept_edges(const char* op, const at::Tensor& edge_index, int64_t num_src,
                      int64_t num_dst, std::optional<int64_t> loops);

// The same of ends that are tensors of their own, each with the rule of the op that it belongs to.
at::Tensor kept_pair(const IndexRule& src_rule, const at::Tensor& src, const IndexRule& dst_rule,
                     const at::Tensor& dst, int64_t num_src, int64_t num_dst);

// A weight for each edge in the order of such a tensor; kept in the index cache if it `keeps`.
at::Tensor weight_in_order(const char* op, const at::Tensor& weight, const at::Tensor& edges,
                           int64_t num_dst, bool keeps);

// Views of such a tensor, or of what there is kept of an edge_index, which has two dimensions.
// Throws where it cannot be one for so many nodes. What the indices are is for the kernels to
// check.
Edges edges_in(const char* op, const at::Tensor& edges, int64_t num_src, int64_t num_dst);

// The same edges in the order of the nodes that they begin in.
struct EdgesBySource {
  kernels::Csr csr;  // sources x destinations
  kernels::CsrColumns columns;
  at::Tensor indices;
};

// From the index cache, by the storage of `edges`, which nobody writes to. Every index has been
// checked then.
EdgesBySource by_source(const char* op, const Edges& edges);

}  // namespace cpuaccel::ops
