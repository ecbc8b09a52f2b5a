// A graph's edges in the order of the nodes that they end in: what the ops of cpuaccel.gnn take.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/csr/csr.h"
#include "kernels/csr/transpose.h"

namespace cpuaccel::ops {

// One tensor of one dimension: crow (destinations + 1), col and perm (an entry for each edge) of
// kernels/csr/edges.h, in 32 bits where these do.
struct Edges {
  kernels::Csr csr;            // destinations x sources
  const void* perm = nullptr;  // entry -> edge
  at::Tensor indices;          // has them all, contiguous
};

// Throw where a tensor is not a dense one on the CPU, of float32 or float64, and of this type and
// shape; of [nodes, features].
void check_dense(const char* op, const char* name, const at::Tensor& x, at::ScalarType type,
                 at::IntArrayRef sizes);
void check_rows(const char* op, const char* name, const at::Tensor& x, at::ScalarType type);

// Views of such a tensor. Throws where it cannot be one for so many nodes. What the indices are is
// for the kernels to check.
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
