// cpuaccel::gat_sum and cpuaccel::gatv2_sum: attention and aggregation of GAT and GATv2 from an
// edge_index, for compiled graphs, in which no size may depend on the number of self-loops.
//
//   gat_sum(x, score_src, score_dst, edge_index, loops, slope, kept)            x [N, H, C]
//   gatv2_sum(x_src, x_dst, att, edge_index, loops, slope, kept)                att [H, C]
//
// Both return the sum, [M, H, C], and alpha in the order of the sorted edges, for the backward.
// With `loops` the edges are those of kept_edges with self-loops on min(N, M) nodes. alpha and
// `kept`, a factor of alpha (dropout), have H values for each possible edge and self-loop; the last
// rows are unused if there are fewer.

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "ops/gnn/edges.h"
#include "ops/registered_op.h"

namespace cpuaccel::ops {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

// The sorted edges of a call, and the factor of alpha in their order.
struct Attention {
  int64_t num_src, num_dst, heads;
  Tensor edges, kept;
  int64_t count;  // number of edges
  int64_t most;   // the most edges possible

  Attention(const char* op, const Tensor& x, const Tensor& dst, const Tensor& edge_index,
            bool loops, const OptionalTensor& mask)
      : num_src(x.size(0)), num_dst(dst.size(0)), heads(x.size(1)) {
    const int64_t nodes = std::min(num_src, num_dst);
    edges = cached_sorted_edges(op, edge_index, num_src, num_dst,
                                loops ? std::optional(nodes) : std::nullopt);
    count = edges_count(edges, num_dst);
    most = edge_index.size(1) + (loops ? nodes : 0);
    if (mask && mask->defined()) {
      check_dense(op, "kept", *mask, x.scalar_type(), {most, heads});
      kept = weight_in_order(op, mask->narrow(0, 0, count), edges, num_dst, false);
    }
  }

  Tensor weights(const Tensor& alpha) const { return kept.defined() ? alpha * kept : alpha; }

  // The used rows of a tensor with `most` rows; and a tensor padded with zeros to `most` rows.
  Tensor used(const Tensor& alpha) const { return alpha.narrow(0, 0, count); }
  Tensor filled_up(const Tensor& alpha) const {
    if (count == most) {
      return alpha;
    }
    Tensor all = at::zeros({most, heads}, alpha.options());
    all.narrow(0, 0, count).copy_(alpha);
    return all;
  }

  Tensor sum(const Tensor& x, const Tensor& alpha) const {
    static const auto by_one =
        registered_op<Tensor(const Tensor&, const Tensor&, const OptionalTensor&, c10::SymInt, bool,
                             bool)>("cpuaccel::edge_sum");
    static const auto by_heads =
        registered_op<Tensor(const Tensor&, const Tensor&, const Tensor&, c10::SymInt, bool)>(
            "cpuaccel::edge_sum_heads");
    const Tensor factors = weights(alpha), flat = x.flatten(1);
    const Tensor total = heads == 1
                             ? by_one.call(flat, edges, factors.flatten(), num_dst, false, false)
                             : by_heads.call(flat, edges, factors, num_dst, false);
    return total.view({num_dst, heads, x.size(2)});
  }

  // The derivatives of sum with respect to x and alpha.
  Two sum_backward(const Tensor& grad, const Tensor& x, const Tensor& alpha) const {
    static const auto backward =
        registered_op<Two(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool)>(
            "cpuaccel::edge_sum_heads_backward");
    const auto [of_x, of_weights] =
        backward.call(grad.flatten(1), x.flatten(1), edges, weights(alpha), false);
    return {of_x.view(x.sizes()), weights(of_weights)};
  }
};

void check_features(const char* op, const char* name, const Tensor& x, const Tensor& like) {
  TORCH_CHECK(x.dim() == 3 && x.size(1) > 0 && x.size(2) > 0, op, ": expected ", name,
              " of shape [nodes, heads, columns], but got ", x.sizes());
  check_dense(op, name, x, like.scalar_type(), {x.size(0), like.size(1), like.size(2)});
}

Two gat_sum(const Tensor& x, const Tensor& score_src, const Tensor& score_dst,
            const Tensor& edge_index, bool loops, double slope, const OptionalTensor& kept) {
  constexpr const char* kOp = "cpuaccel::gat_sum";
  check_features(kOp, "x", x, x);
  check_dense(kOp, "score_src", score_src, x.scalar_type(), {x.size(0), x.size(1)});
  check_rows(kOp, "score_dst", score_dst, x.scalar_type());
  const Attention call(kOp, x, score_dst, edge_index, loops, kept);
  static const auto gat_alpha =
      registered_op<Tensor(const Tensor&, const Tensor&, const Tensor&, double)>(
          "cpuaccel::gat_alpha");
  const Tensor alpha = gat_alpha.call(score_src, score_dst, call.edges, slope);
  return {call.sum(x, alpha), call.filled_up(alpha)};
}

Three gat_sum_backward(const Tensor& grad, const Tensor& x, const Tensor& score_src,
                       const Tensor& score_dst, const Tensor& edge_index, const Tensor& alpha,
                       bool loops, double slope, const OptionalTensor& kept) {
  constexpr const char* kOp = "cpuaccel::gat_sum_backward";
  check_features(kOp, "x", x, x);
  check_features(kOp, "grad", grad, x);
  const Attention call(kOp, x, score_dst, edge_index, loops, kept);
  check_dense(kOp, "alpha", alpha, x.scalar_type(), {call.most, call.heads});
  static const auto backward =
      registered_op<Two(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                        double)>("cpuaccel::gat_alpha_backward");
  const Tensor weights = call.used(alpha);
  const auto [of_x, of_alpha] = call.sum_backward(grad, x, weights);
  const auto [of_src, of_dst] =
      backward.call(of_alpha, weights, score_src, score_dst, call.edges, slope);
  return {of_x, of_src, of_dst};
}

Two gatv2_sum(const Tensor& x_src, const Tensor& x_dst, const Tensor& att, const Tensor& edge_index,
              bool loops, double slope, const OptionalTensor& kept) {
  constexpr const char* kOp = "cpuaccel::gatv2_sum";
  check_features(kOp, "x_src", x_src, x_src);
  check_features(kOp, "x_dst", x_dst, x_src);
  const Attention call(kOp, x_src, x_dst, edge_index, loops, kept);
  static const auto score =
      registered_op<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double)>(
          "cpuaccel::gatv2_scores");
  static const auto softmax =
      registered_op<Tensor(const Tensor&, const Tensor&, c10::SymInt, c10::SymInt)>(
          "cpuaccel::edge_softmax");
  const Tensor scores = score.call(x_src.flatten(1), x_dst.flatten(1), att, call.edges, slope);
  const Tensor alpha = softmax.call(scores, call.edges, call.num_src, call.num_dst);
  return {call.sum(x_src, alpha), call.filled_up(alpha)};
}

Three gatv2_sum_backward(const Tensor& grad, const Tensor& x_src, const Tensor& x_dst,
                         const Tensor& att, const Tensor& edge_index, const Tensor& alpha,
                         bool loops, double slope, const OptionalTensor& kept) {
  constexpr const char* kOp = "cpuaccel::gatv2_sum_backward";
  check_features(kOp, "x_src", x_src, x_src);
  check_features(kOp, "x_dst", x_dst, x_src);
  check_features(kOp, "grad", grad, x_src);
  const Attention call(kOp, x_src, x_dst, edge_index, loops, kept);
  check_dense(kOp, "alpha", alpha, x_src.scalar_type(), {call.most, call.heads});
  static const auto of_softmax =
      registered_op<Tensor(const Tensor&, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt)>(
          "cpuaccel::edge_softmax_backward");
  static const auto of_scores =
      registered_op<Three(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                          double)>("cpuaccel::gatv2_scores_backward");
  const Tensor weights = call.used(alpha);
  const auto [of_x, of_alpha] = call.sum_backward(grad, x_src, weights);
  const Tensor scores = of_softmax.call(of_alpha, weights, call.edges, call.num_src, call.num_dst);
  const auto [of_src, of_dst, of_att] =
      of_scores.call(scores, x_src.flatten(1), x_dst.flatten(1), att, call.edges, slope);
  of_x.add_(of_src.view(x_src.sizes()));
  return {of_x, of_dst.view(x_dst.sizes()), of_att};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "gat_sum(Tensor x, Tensor score_src, Tensor score_dst, Tensor edge_index, bool loops, float "
      "slope, Tensor? kept=None) -> (Tensor, Tensor)");
  library.def(
      "gat_sum_backward(Tensor grad, Tensor x, Tensor score_src, Tensor score_dst, Tensor "
      "edge_index, Tensor alpha, bool loops, float slope, Tensor? kept=None) -> (Tensor, Tensor, "
      "Tensor)");
  library.def(
      "gatv2_sum(Tensor x_src, Tensor x_dst, Tensor att, Tensor edge_index, bool loops, float "
      "slope, Tensor? kept=None) -> (Tensor, Tensor)");
  library.def(
      "gatv2_sum_backward(Tensor grad, Tensor x_src, Tensor x_dst, Tensor att, Tensor edge_index, "
      "Tensor alpha, bool loops, float slope, Tensor? kept=None) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("gat_sum", gat_sum);
  library.impl("gat_sum_backward", gat_sum_backward);
  library.impl("gatv2_sum", gatv2_sum);
  library.impl("gatv2_sum_backward", gatv2_sum_backward);
}

}  // namespace cpuaccel::ops
