// cpuaccel::index_sum: gathers rows by one index and sums them by another (gather-scatter), without
// a tensor of the gathered rows.
//
//   index_sum(x, src, dst, weight, rows)[m] = sum over e with dst[e] = m of weight[e] * x[src[e]]
//
// Compiled graphs call it instead of x[src], mul and scatter_add, forward and backward. The index
// cache keeps src and dst sorted by dst. weight has one value for each entry of src, or shape [E,
// heads] with one for each head; heads are adjacent columns of x. No weight means ones. x is 2-d,
// float32 or float64.
//
// `read` and `added` name the torch ops that took src and dst in the graph: their rules say whether
// a negative index counts from the end, and errors name them.

#include <torch/library.h>

#include <array>
#include <optional>
#include <string_view>

#include "ops/gnn/edges.h"
#include "ops/gnn/index_rule.h"
#include "ops/gnn/rows.h"
#include "ops/registered_op.h"

namespace cpuaccel::ops {
namespace {

constexpr const char* kIndexSum = "cpuaccel::index_sum";

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor index_sum(const at::Tensor& x, const at::Tensor& src, const at::Tensor& dst,
                     const OptionalTensor& weight, int64_t rows, std::string_view read,
                     std::string_view added) {
  check_rows(kIndexSum, "x", x, x.scalar_type());
  TORCH_CHECK(strided_on_cpu(src) && strided_on_cpu(dst) && is_index_type(src.scalar_type()) &&
                  is_index_type(dst.scalar_type()) && src.dim() == 1 && dst.sizes() == src.sizes(),
              kIndexSum,
              ": expected src and dst to be dense tensors of int32 or int64 and one shape [E] on "
              "the CPU, but got ",
              src.scalar_type(), " of shape ", src.sizes(), " and ", dst.scalar_type(),
              " of shape ", dst.sizes());
  TORCH_CHECK(rows >= 0, kIndexSum, ": expected rows to be at least 0, but got ", rows);
  const int64_t count = src.numel();
  const at::Tensor edges = cached_sorted_pair(
      index_rule_of(kIndexSum, read), src, index_rule_of(kIndexSum, added), dst, x.size(0), rows);
  OptionalTensor in_order;
  if (weight && weight->defined()) {
    TORCH_CHECK(weight->dim() == 1 || weight->dim() == 2, kIndexSum,
                ": expected weight of shape [E] or [E, heads], but got ", weight->sizes());
    const std::array sizes{count, weight->size(-1)};
    check_dense(kIndexSum, "weight", *weight, x.scalar_type(),
                at::IntArrayRef(sizes).slice(0, static_cast<size_t>(weight->dim())));
    in_order = weight_in_order(kIndexSum, *weight, edges, rows, false);
  }
  static const auto edge_sum_heads =
      registered_op<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, c10::SymInt,
                               bool)>("cpuaccel::edge_sum_heads");
  if (in_order && in_order->dim() == 2) {
    return edge_sum_heads.call(x, edges, *in_order, rows, false);
  }
  static const auto edge_sum =
      registered_op<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                               c10::SymInt, bool, bool)>("cpuaccel::edge_sum");
  return edge_sum.call(x, edges, in_order, rows, false, false);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "index_sum(Tensor x, Tensor src, Tensor dst, Tensor? weight, SymInt rows, "
      "str read='index_select', str added='index_add') -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("index_sum", index_sum); }

}  // namespace cpuaccel::ops
