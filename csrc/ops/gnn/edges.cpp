// cpuaccel::sort_edges and cpuaccel::kept_edges: sort an edge_index [2, E] by destination node.
//
// kept_edges returns the cached result for the same edge_index, from the index cache. Nobody may
// write to it, so compiled graphs, which reuse memory, must not get it. With `loops`, self-loops
// are removed, and one self-loop on each of the first `loops` nodes is appended.

#include "ops/gnn/edges.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <torch/library.h>

#include <array>

#include "kernels/csr/edges.h"
#include "ops/gnn/rows.h"
#include "ops/kernel_call.h"
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
              ": expected num_src and num_dst to be at least 0, but got ", num_src, " and ",
              num_dst);
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
  return sort_by_destination(op, edge_index.select(0, 0).contiguous(),
                             edge_index.select(0, 1).contiguous(), num_src, num_dst);
}

at::Tensor with_loops(const at::Tensor& edge_index, int64_t loops) {
  const at::Tensor others = edge_index.select(0, 0).ne(edge_index.select(0, 1)).nonzero();
  const at::Tensor each = at::arange(loops, edge_index.options());
  return at::cat({edge_index.index_select(1, others.flatten()), each.expand({2, loops})}, 1);
}

at::Tensor sort_edges(const at::Tensor& edge_index, int64_t num_src, int64_t num_dst) {
  return sorted_edges("cpuaccel::sort_edges", edge_index, num_src, num_dst);
}

at::Tensor cached_sorted_edges_op(const at::Tensor& edge_index, int64_t num_src, int64_t num_dst,
                                  std::optional<int64_t> loops) {
  return cached_sorted_edges("cpuaccel::kept_edges", edge_index, num_src, num_dst, loops);
}

at::Tensor cached_weight_in_order(const at::Tensor& weight, const at::Tensor& edges,
                                  int64_t num_dst) {
  return weight_in_order("cpuaccel::kept_weight", weight, edges, num_dst, true);
}

}  // namespace

int64_t edges_count(const at::Tensor& edges, int64_t num_dst) {
  return (edges.numel() - num_dst - 1) / 2;
}

at::Tensor edge_order(const at::Tensor& edges, int64_t num_dst) {
  const int64_t count = edges_count(edges, num_dst);
  return edges.narrow(0, num_dst + 1 + count, count);
}

at::Tensor sort_by_destination(const char* op, const at::Tensor& src, const at::Tensor& dst,
                               int64_t num_src, int64_t num_dst) {
  CPUACCEL_KERNEL_CALL(sort_edges);
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

at::Tensor cached_sorted_edges(const char* op, const at::Tensor& edge_index, int64_t num_src,
                               int64_t num_dst, std::optional<int64_t> loops) {
  check_edge_index(op, edge_index, num_src, num_dst);
  TORCH_CHECK(!loops || (*loops >= 0 && *loops <= num_src && *loops <= num_dst), op,
              ": expected loops to be at most the numbers of nodes, but got ", loops.value_or(0));
  const auto make = [&] {
    return sorted(op, loops ? with_loops(edge_index, *loops) : edge_index, num_src, num_dst);
  };
  // Self-loops are on all nodes or, between two node types, on the smaller number of nodes.
  const bool usual = !loops || *loops == std::min(num_src, num_dst);
  constexpr int64_t kMost = int64_t{1} << 30;
  if (!usual || num_src >= kMost || num_dst >= kMost) {
    return make();
  }
  const std::array sources{&edge_index};
  return index_cache().get(sources, (num_src << 31 | num_dst << 1) + (loops ? 1 : 0), make);
}

at::Tensor sorted_edges(const char* op, const at::Tensor& edge_index, int64_t num_src,
                        int64_t num_dst) {
  check_edge_index(op, edge_index, num_src, num_dst);
  return sorted(op, edge_index, num_src, num_dst);
}

at::Tensor cached_sorted_pair(const IndexRule& src_rule, const at::Tensor& src,
                              const IndexRule& dst_rule, const at::Tensor& dst, int64_t num_src,
                              int64_t num_dst) {
  const auto make = [&] {
    return sort_by_destination(src_rule.op, from_start(src_rule, src, num_src),
                               from_start(dst_rule, dst, num_dst), num_src, num_dst);
  };
  constexpr int64_t kMost = int64_t{1} << 30;
  if (num_src >= kMost || num_dst >= kMost) {
    return make();
  }
  const std::array sources{&src, &dst};
  // Another form than that of the two index tensors of a sparse matrix. An index that one rule
  // accepts may be an error for another rule.
  constexpr int64_t kPair = int64_t{1} << 62;
  const int64_t rules = int64_t{src_rule.wraps} << 61 | int64_t{dst_rule.wraps} << 30;
  return index_cache().get(sources, kPair | rules | num_src << 31 | num_dst, make);
}

at::Tensor weight_in_order(const char* op, const at::Tensor& weight, const at::Tensor& edges,
                           int64_t num_dst, bool caches) {
  const int64_t count = edges_count(edges, num_dst);
  TORCH_CHECK(weight.dim() > 0 && weight.size(0) == count && edges.dim() == 1, op,
              ": expected a weight for each of ", count, " edges, but got ", weight.sizes());
  const auto make = [&] { return weight.index_select(0, edge_order(edges, num_dst)); };
  const std::array sources{&weight};
  return caches ? index_cache().get(sources, -1, make, &edges) : make();
}

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

void check_edges_are_valid(const char* op, bool valid) {
  TORCH_CHECK(valid, op,
              ": expected edges to be a result of sort_edges for these numbers of nodes, but its "
              "indices are out of range or not sorted");
}

Edges edges_in(const char* op, const at::Tensor& edges, int64_t num_src, int64_t num_dst) {
  if (edges.dim() == 2) {
    return edges_in(op, cached_sorted_edges(op, edges, num_src, num_dst, std::nullopt), num_src,
                    num_dst);
  }
  const int64_t count = edges_count(edges, num_dst);
  TORCH_CHECK(strided_on_cpu(edges) && is_index_type(edges.scalar_type()) && edges.dim() == 1 &&
                  num_src >= 0 && num_dst >= 0 && edges.numel() > num_dst &&
                  num_dst + 1 + 2 * count == edges.numel(),
              op, ": expected edges to be a result of sort_edges for ", num_dst,
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
        at::Tensor indices =
            at::detail::empty_cpu({2 * csr.nnz + csr.N + 1}, edges.indices.scalar_type());
        const auto fault = kernels::csr_transpose(csr, columns_in(indices));
        check_edges_are_valid(op, fault == kernels::CsrFault::none);
        return indices;
      },
      &edges.indices);
  TORCH_CHECK(result.indices.numel() == 2 * csr.nnz + csr.N + 1, op,
              ": expected edges to be a result of sort_edges for ", csr.N, " source nodes");
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
  library.impl("kept_edges", cached_sorted_edges_op);
  library.impl("kept_weight", cached_weight_in_order);
}

}  // namespace cpuaccel::ops
