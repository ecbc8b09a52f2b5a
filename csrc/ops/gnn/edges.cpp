// cpuaccel::sort_edges and cpuaccel::kept_edges: an edge_index, 2 x E, in the order of the nodes
// that its edges end in.
//
// kept_edges returns what it returned before for the same edge_index, from the index cache: nobody
// may write to it, so compiled graphs, which use memory again, call sort_edges. With `loops` edges
// from a node to itself are left out, and behind the others each of the first `loops` nodes has
// one.

#include "ops/gnn/edges.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <array>

#include "kernels/csr/edges.h"
#include "ops/gnn/rows.h"
#include "ops/tensor_cache.h"

namespace cpuaccel::ops {
namespace {

using kernels::EdgeFault;

struct Parts {
  std::byte *crow, *col, *perm;
};

Parts parts_of(const at::Tensor& indices, int64_t num_dst, int64_t count) {
  auto* first = static_cast<std::byte*>(const_cast<void*>(indices.const_data_ptr()));
  const auto size = static_cast<int64_t>(indices.itemsize());
  return {first, first + (num_dst + 1) * size, first + (num_dst + 1 + count) * size};
}

void check_edge_index(const char* op, const at::Tensor& edge_index, int64_t num_src,
                      int64_t num_dst) {
  TORCH_CHECK(
      strided_on_cpu(edge_index) && is_index_type(edge_index.scalar_type()) &&
          edge_index.dim() == 2 && edge_index.size(0) == 2,
      op,
      ": expected edge_index to be a dense tensor of int32 or int64 and shape [2, E] on the "
      "CPU, but got ",
      edge_index.scalar_type(), " of shape ", edge_index.sizes());
  TORCH_CHECK(num_src >= 0 && num_dst >= 0, op,
              ": expected numbers of nodes of 0 or more, but got ", num_src, " and ", num_dst);
}

void check_fault(const char* op, EdgeFault fault, const at::Tensor& ends, int64_t nodes) {
  if (fault == EdgeFault::none) {
    return;
  }
  const auto low = ends.min().item<int64_t>();
  const auto value = low < 0 ? low : ends.max().item<int64_t>();
  TORCH_CHECK_INDEX(false, op, ": expected edge_index[", fault == EdgeFault::src ? 0 : 1,
                    "] to be at least 0 and below ", nodes, ", the number of ",
                    fault == EdgeFault::src ? "source" : "destination", " nodes, but got ", value);
}

at::Tensor sorted(const char* op, const at::Tensor& edge_index, int64_t num_src, int64_t num_dst) {
  const at::Tensor src = edge_index.select(0, 0).contiguous();
  const at::Tensor dst = edge_index.select(0, 1).contiguous();
  const int64_t count = src.numel();
  const bool narrow =
      kernels::fits_int32(count) && kernels::fits_int32(num_src) && kernels::fits_int32(num_dst);
  at::Tensor indices =
      at::detail::empty_cpu({num_dst + 1 + 2 * count}, narrow ? at::kInt : at::kLong);
  const auto parts = parts_of(indices, num_dst, count);
  const auto fault = kernels::edge_rows({count, num_dst, num_src, src.const_data_ptr(),
                                         dst.const_data_ptr(), src.scalar_type() == at::kLong},
                                        {parts.crow, parts.col, parts.perm, !narrow});
  check_fault(op, fault, fault == EdgeFault::src ? src : dst,
              fault == EdgeFault::src ? num_src : num_dst);
  return indices;
}

at::Tensor with_loops(const at::Tensor& edge_index, int64_t loops) {
  const at::Tensor others = edge_index.select(0, 0).ne(edge_index.select(0, 1)).nonzero();
  const at::Tensor each = at::arange(loops, edge_index.options());
  return at::cat({edge_index.index_select(1, others.flatten()), each.expand({2, loops})}, 1);
}

at::Tensor sort_edges(const at::Tensor& edge_index, int64_t num_src, int64_t num_dst) {
  constexpr const char* kOp = "cpuaccel::sort_edges";
  check_edge_index(kOp, edge_index, num_src, num_dst);
  return sorted(kOp, edge_index, num_src, num_dst);
}

at::Tensor kept_edges(const at::Tensor& edge_index, int64_t num_src, int64_t num_dst,
                      std::optional<int64_t> loops) {
  constexpr const char* kOp = "cpuaccel::kept_edges";
  check_edge_index(kOp, edge_index, num_src, num_dst);
  TORCH_CHECK(!loops || (*loops >= 0 && *loops <= num_src && *loops <= num_dst), kOp,
              ": expected loops of no more nodes than there are, but got ", loops.value_or(0));
  const auto make = [&] {
    // What is made in inference mode could not be used outside of it.
    const c10::InferenceMode normal(false);
    const at::NoGradGuard no_grad;
    return sorted(kOp, loops ? with_loops(edge_index, *loops) : edge_index, num_src, num_dst);
  };
  // Loops are on all nodes or, between two kinds of nodes, on the fewer.
  const bool usual = !loops || *loops == std::min(num_src, num_dst);
  constexpr int64_t kMost = int64_t{1} << 30;
  if (!usual || num_src >= kMost || num_dst >= kMost) {
    return make();
  }
  const std::array sources{&edge_index};
  return index_cache().get(sources, (num_src << 31 | num_dst << 1) + (loops ? 1 : 0), make);
}

// weight in the order of `edges`, whose perm it is indexed by.
at::Tensor kept_weight(const at::Tensor& weight, const at::Tensor& edges, int64_t num_dst) {
  const int64_t count = (edges.numel() - num_dst - 1) / 2;
  TORCH_CHECK(weight.dim() > 0 && weight.size(0) == count && edges.dim() == 1,
              "cpuaccel::kept_weight: expected a weight for each of ", count, " edges, but got ",
              weight.sizes());
  const std::array sources{&weight};
  return index_cache().get(
      sources, -1,
      [&] {
        const c10::InferenceMode normal(false);
        const at::NoGradGuard no_grad;
        return weight.index_select(0, edges.narrow(0, num_dst + 1 + count, count));
      },
      &edges);
}

}  // namespace

void check_dense(const char* op, const char* name, const at::Tensor& x, at::ScalarType type,
                 at::IntArrayRef sizes) {
  TORCH_CHECK(strided_on_cpu(x) && !x.is_neg() && x.scalar_type() == type && x.sizes() == sizes &&
                  (type == at::kFloat || type == at::kDouble),
              op, ": expected ", name, " to be a dense tensor of ",
              type == at::kDouble ? "float64" : "float32", " and shape ", sizes,
              " on the CPU, but got ", x.scalar_type(), " of shape ", x.sizes());
}

void check_rows(const char* op, const char* name, const at::Tensor& x, at::ScalarType type) {
  TORCH_CHECK(strided_on_cpu(x) && !x.is_neg() && x.dim() == 2 && x.scalar_type() == type &&
                  (type == at::kFloat || type == at::kDouble),
              op, ": expected ", name,
              " to be a dense tensor of float32 or float64 and shape [nodes, features] on the CPU, "
              "but got ",
              x.scalar_type(), " of shape ", x.sizes());
}

Edges edges_in(const char* op, const at::Tensor& edges, int64_t num_src, int64_t num_dst) {
  const int64_t count = (edges.numel() - num_dst - 1) / 2;
  TORCH_CHECK(strided_on_cpu(edges) && is_index_type(edges.scalar_type()) && edges.dim() == 1 &&
                  num_src >= 0 && num_dst >= 0 && edges.numel() > num_dst &&
                  num_dst + 1 + 2 * count == edges.numel(),
              op, ": expected edges to be what sort_edges returned for ", num_dst,
              " destination nodes, but got ", edges.scalar_type(), " of shape ", edges.sizes());
  Edges result;
  result.indices = edges.contiguous();
  const auto parts = parts_of(result.indices, num_dst, count);
  result.perm = parts.perm;
  result.csr = {num_dst, num_src, count, parts.crow, parts.col, edges.scalar_type() == at::kLong};
  return result;
}

EdgesBySource by_source(const char* op, const Edges& edges) {
  const auto& csr = edges.csr;
  const auto columns_in = [&](const at::Tensor& indices) {
    auto* first = static_cast<std::byte*>(const_cast<void*>(indices.const_data_ptr()));
    const auto bytes = static_cast<int64_t>(indices.itemsize()) * csr.nnz;
    return kernels::CsrColumns{first + 2 * bytes, first, first + bytes, csr.wide};
  };
  EdgesBySource result;
  result.indices = index_cache().get(
      {}, csr.M,
      [&] {
        const c10::InferenceMode normal(false);
        at::Tensor indices =
            at::detail::empty_cpu({2 * csr.nnz + csr.N + 1}, edges.indices.scalar_type());
        const auto fault = kernels::csr_transpose(csr, columns_in(indices));
        TORCH_CHECK(fault == kernels::CsrFault::none, op,
                    ": edges are none that sort_edges returned for these numbers of nodes");
        return indices;
      },
      &edges.indices);
  TORCH_CHECK(result.indices.numel() == 2 * csr.nnz + csr.N + 1, op,
              ": edges were sorted for another number of source nodes");
  result.columns = columns_in(result.indices);
  result.csr = {
      csr.N, csr.M, csr.nnz, result.columns.ccol, result.columns.row, result.columns.wide};
  return result;
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def("sort_edges(Tensor edge_index, SymInt num_src, SymInt num_dst) -> Tensor");
  library.def("kept_edges(Tensor edge_index, int num_src, int num_dst, int? loops=None) -> Tensor");
  library.def("kept_weight(Tensor weight, Tensor edges, int num_dst) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("sort_edges", sort_edges);
  library.impl("kept_edges", kept_edges);
  library.impl("kept_weight", kept_weight);
}

}  // namespace cpuaccel::ops
