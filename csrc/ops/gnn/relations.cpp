// cpuaccel::kept_relations: the edges of a heterogeneous graph sorted by relation and destination
// node, from the index cache (RGCN layers).
//
// A pair is a relation and a node in which at least one of its edges ends. Pairs are numbered by
// relation, then node. Consecutive relations form a group while they have at most 4 pairs for each
// node, so that tensors of a group's pairs are not much larger than tensors of nodes. The result is
// one tensor, for R relations and P pairs:
//
//   first[r], r <= R: the first relation of r's group; R for r = R
//   pairs[r], r <= R: the first pair of relation r; P for r = R
//   entries[r], r <= R: the first edge of relation r in this order
//   node[p], p < P: the node of pair p
//   for each group the result of sort_edges, with its pairs in place of destination nodes
//
// With `apart` an edge of relation r begins in r * sources + src: each relation has its own
// sources.

#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include <array>
#include <limits>
#include <vector>

#include "kernels/csr/edges.h"
#include "ops/gnn/edges.h"
#include "ops/gnn/rows.h"
#include "ops/tensor_cache.h"

namespace cpuaccel::ops {
namespace {

constexpr const char* kRelations = "cpuaccel::kept_relations";
constexpr int64_t kPairsOfNode = 4;

// Edges sorted by (type, dst), stably.
struct Sorted {
  at::Tensor order;  // int64: the edge at each place
  at::Tensor src, dst, type;
};

void check_types(const at::Tensor& edge_type, int64_t relations) {
  const at::Tensor numbers = edge_type.contiguous();
  if (!numbers_within(numbers, 0, relations)) {
    const auto low = numbers.min().item<int64_t>();
    TORCH_CHECK_INDEX(false, kRelations, ": expected edge_type to be at least 0 and below ",
                      relations, ", the number of relations, but got ",
                      low < 0 ? low : numbers.max().item<int64_t>());
  }
}

Sorted by_relation(const at::Tensor& edge_index, const at::Tensor& edge_type, int64_t num_src,
                   int64_t num_dst, int64_t relations) {
  check_types(edge_type, relations);
  const at::Tensor src = edge_index.select(0, 0), dst = edge_index.select(0, 1);
  // Two stable sorts, the last key first. The first one checks both ends of every edge.
  const at::Tensor by_dst =
      edge_order(sorted_edges(kRelations, edge_index, num_src, num_dst), num_dst);
  const at::Tensor type = edge_type.to(at::kLong).index_select(0, by_dst);
  const at::Tensor by_type =
      edge_order(sorted_edges(kRelations, type.expand({2, -1}), relations, relations), relations);
  Sorted result;
  result.order = by_dst.index_select(0, by_type).to(at::kLong);
  result.src = src.to(at::kLong).index_select(0, result.order);
  result.dst = dst.to(at::kLong).index_select(0, result.order);
  result.type = type.index_select(0, by_type);
  return result;
}

// An edge of relation r begins in r * stride + src.
template <typename Index>
at::Tensor packed(const Sorted& sorted, int64_t num_dst, int64_t relations, int64_t stride) {
  const int64_t count = sorted.order.numel();
  const auto* order = sorted.order.const_data_ptr<int64_t>();
  const auto* src = sorted.src.const_data_ptr<int64_t>();
  const auto* dst = sorted.dst.const_data_ptr<int64_t>();
  const auto* type = sorted.type.const_data_ptr<int64_t>();
  const auto new_pair = [&](int64_t i) {
    return i == 0 || type[i] != type[i - 1] || dst[i] != dst[i - 1];
  };
  std::vector<int64_t> pairs(static_cast<size_t>(relations) + 1), entries(pairs), first(pairs);
  for (int64_t i = 0; i < count; ++i) {
    const auto next = static_cast<size_t>(type[i]) + 1;
    ++entries[next];
    pairs[next] += new_pair(i) ? 1 : 0;
  }
  int64_t groups = 0;
  for (size_t r = 0; r < first.size() - 1; ++r) {
    entries[r + 1] += entries[r];
    pairs[r + 1] += pairs[r];
    const auto begin = r == 0 ? 0 : static_cast<size_t>(first[r - 1]);
    const bool fits = r > 0 && pairs[r + 1] - pairs[begin] <= kPairsOfNode * num_dst;
    first[r] = static_cast<int64_t>(fits ? begin : r);
    groups += fits ? 0 : 1;
  }
  first.back() = relations;
  const int64_t all = pairs.back();
  at::Tensor result = at::detail::empty_cpu({3 * (relations + 1) + 2 * all + groups + 2 * count},
                                            c10::CppTypeToScalarType<Index>::value);
  auto* to = result.mutable_data_ptr<Index>();
  for (const auto* header : {&first, &pairs, &entries}) {
    for (const int64_t value : *header) {
      *to++ = static_cast<Index>(value);
    }
  }
  auto* node = to;
  to += all;
  for (int64_t r = 0, end = 0; r < relations; r = end) {
    for (end = r + 1; end < relations && first[static_cast<size_t>(end)] == r;) {
      ++end;
    }
    const int64_t begin = entries[static_cast<size_t>(r)];
    const int64_t edges = entries[static_cast<size_t>(end)] - begin;
    auto* crow = to;
    auto* col = crow + pairs[static_cast<size_t>(end)] - pairs[static_cast<size_t>(r)] + 1;
    auto* perm = col + edges;
    for (int64_t i = 0; i < edges; ++i) {
      if (new_pair(begin + i)) {
        *crow++ = static_cast<Index>(i);
        *node++ = static_cast<Index>(dst[begin + i]);
      }
      col[i] = static_cast<Index>(type[begin + i] * stride + src[begin + i]);
      perm[i] = static_cast<Index>(order[begin + i]);
    }
    *crow = static_cast<Index>(edges);
    to = perm + edges;
  }
  return result;
}

at::Tensor kept_relations(const at::Tensor& edge_index, const at::Tensor& edge_type,
                          int64_t num_src, int64_t num_dst, int64_t relations, bool apart) {
  TORCH_CHECK(relations >= 0 && strided_on_cpu(edge_type) &&
                  is_index_type(edge_type.scalar_type()) && edge_type.dim() == 1 &&
                  edge_index.dim() == 2 && edge_type.size(0) == edge_index.size(1),
              kRelations,
              ": expected edge_type to be a dense tensor of int32 or int64 with a relation "
              "for each edge, but got ",
              edge_type.scalar_type(), " of shape ", edge_type.sizes(), " for edge_index of shape ",
              edge_index.sizes());
  const auto make = [&] {
    const auto sorted = by_relation(edge_index, edge_type, num_src, num_dst, relations);
    const int64_t stride = apart ? num_src : 0;
    const bool narrow = kernels::fits_int32(edge_index.size(1)) && kernels::fits_int32(num_src) &&
                        kernels::fits_int32(num_dst) && kernels::fits_int32(relations) &&
                        (stride == 0 || relations <= std::numeric_limits<int32_t>::max() / stride);
    return narrow ? packed<int32_t>(sorted, num_dst, relations, stride)
                  : packed<int64_t>(sorted, num_dst, relations, stride);
  };
  constexpr int64_t kMostNodes = int64_t{1} << 24, kMostRelations = int64_t{1} << 14;
  if (num_src >= kMostNodes || num_dst >= kMostNodes || relations >= kMostRelations) {
    return make();
  }
  const std::array sources{&edge_index, &edge_type};
  const int64_t form = ((num_src << 24 | num_dst) << 14 | relations) << 1 | (apart ? 1 : 0);
  return index_cache().get(sources, form, make);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "kept_relations(Tensor edge_index, Tensor edge_type, int num_src, int num_dst, int "
      "relations, bool apart=False) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("kept_relations", kept_relations); }

}  // namespace cpuaccel::ops
