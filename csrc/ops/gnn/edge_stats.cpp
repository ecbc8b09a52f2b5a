// cpuaccel::edge_stats: mean, variance, min and max of the messages x[n] + shift[m] from nodes n to
// a node m, and their gradient (PNAConv, EdgeConv). Each edge's row of x is read once.
//
// Returns all six results; or one extreme and its ties (the number of messages equal to it), and no
// elements for the others. All are 0 for nodes without edges. shift has one row for each of `rows`
// destination nodes, and is optional. Gradients of extremes are those of edge_extreme. x is 2-d,
// float32 or float64. Results and gradients have the same bits on any number of threads.

#include "kernels/edge_stats/edge_stats.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <string_view>
#include <tuple>

#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/edges.h"
#include "ops/kernel_call.h"

namespace cpuaccel::ops {
namespace {

constexpr const char* kStats = "cpuaccel::edge_stats";
constexpr const char* kStatsBackward = "cpuaccel::edge_stats_backward";

using OptionalTensor = std::optional<at::Tensor>;
using SixTensors =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Which of mean, var, smallest, largest and the ties of both are requested.
std::array<bool, 6> wanted_of(const char* op, std::string_view which) {
  TORCH_CHECK_VALUE(which == "all" || which == "amin" || which == "amax", op,
                    ": expected which to be all, amin or amax, but got ", which);
  const bool all = which == "all", smallest = which != "amax", largest = which != "amin";
  return {all, all, smallest, largest, smallest, largest};
}

at::Tensor rows_like(const char* op, const char* name, const OptionalTensor& rows,
                     at::ScalarType type, at::IntArrayRef sizes) {
  if (!rows || !rows->defined()) {
    return {};
  }
  check_dense(op, name, *rows, type, sizes);
  return rows->contiguous();
}

const void* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

kernels::EdgeStatsCall stats_call(const Edges& graph, const at::Tensor& x,
                                  const at::Tensor& shift) {
  kernels::EdgeStatsCall call;
  call.csr = graph.csr;
  call.K = x.size(1);
  call.type = data_type(x.scalar_type());
  call.src = x.const_data_ptr();
  call.shift = data_of(shift);
  return call;
}

kernels::EdgeStats pointers(const std::array<at::Tensor, 6>& of) {
  const auto at = [&](size_t i) { return const_cast<void*>(data_of(of[i])); };
  return {at(0), at(1), at(2), at(3), at(4), at(5)};
}

SixTensors edge_stats(const at::Tensor& x, const at::Tensor& edges, const OptionalTensor& shift,
                      int64_t rows, std::string_view which) {
  const auto wanted = wanted_of(kStats, which);
  const auto type = x.scalar_type();
  check_rows(kStats, "x", x, type);
  const auto graph = edges_in(kStats, edges, x.size(0), rows);
  const std::array<int64_t, 2> sizes{rows, x.size(1)};
  CPUACCEL_KERNEL_CALL(edge_stats);
  const at::Tensor src = x.contiguous();
  const at::Tensor shifts = rows_like(kStats, "shift", shift, type, sizes);
  std::array<at::Tensor, 6> made;
  for (size_t i = 0; i < made.size(); ++i) {
    if (wanted[i]) {
      made[i] = at::detail::empty_cpu(sizes, type);
    }
  }
  auto call = stats_call(graph, src, shifts);
  call.stats = pointers(made);
  if (rows > 0 && x.size(1) > 0) {
    check_edges_are_valid(kStats, kernels::edge_stats(call) == kernels::CsrFault::none);
  }
  for (size_t i = 0; i < made.size(); ++i) {
    if (!wanted[i]) {
      made[i] = at::detail::empty_cpu({0}, type);
    }
  }
  return {made[0], made[1], made[2], made[3], made[4], made[5]};
}

// The gradients of x and of shift; the latter has no elements if there is no shift. The results are
// passed in, except for the variance, which no gradient needs.
std::tuple<at::Tensor, at::Tensor> edge_stats_backward(
    const OptionalTensor& grad_mean, const OptionalTensor& grad_var,
    const OptionalTensor& grad_smallest, const OptionalTensor& grad_largest, const at::Tensor& x,
    const at::Tensor& edges, const OptionalTensor& shift, int64_t rows, std::string_view which,
    const at::Tensor& mean, const at::Tensor& smallest, const at::Tensor& largest,
    const at::Tensor& ties_smallest, const at::Tensor& ties_largest) {
  const auto wanted = wanted_of(kStatsBackward, which);
  const auto type = x.scalar_type();
  check_rows(kStatsBackward, "x", x, type);
  const auto graph = edges_in(kStatsBackward, edges, x.size(0), rows);
  const std::array<int64_t, 2> sizes{rows, x.size(1)};
  const auto like = [&](const char* name, const OptionalTensor& tensor, bool asked = true) {
    return asked ? rows_like(kStatsBackward, name, tensor, type, sizes) : at::Tensor();
  };
  CPUACCEL_KERNEL_CALL(edge_stats_backward);
  const at::Tensor src = x.contiguous(), shifts = like("shift", shift);
  const std::array stats{like("mean", mean, wanted[0]),
                         at::Tensor(),
                         like("smallest", smallest, wanted[2]),
                         like("largest", largest, wanted[3]),
                         like("ties_smallest", ties_smallest, wanted[4]),
                         like("ties_largest", ties_largest, wanted[5])};
  const std::array grads{like("grad_mean", grad_mean), like("grad_var", grad_var),
                         like("grad_smallest", grad_smallest), like("grad_largest", grad_largest)};
  at::Tensor grad_x = at::zeros_like(src);
  at::Tensor grad_shift =
      shifts.defined() ? at::detail::empty_cpu(sizes, type) : at::detail::empty_cpu({0}, type);
  auto call = stats_call(graph, src, shifts);
  call.stats = pointers(stats);
  call.grad_mean = data_of(grads[0]);
  call.grad_var = data_of(grads[1]);
  call.grad_smallest = data_of(grads[2]);
  call.grad_largest = data_of(grads[3]);
  call.grad_src = grad_x.mutable_data_ptr();
  call.grad_shift = shifts.defined() ? grad_shift.mutable_data_ptr() : nullptr;
  if (rows > 0 && x.size(1) > 0) {
    check_edges_are_valid(kStatsBackward,
                          kernels::edge_stats_gradient(call) == kernels::CsrFault::none);
  }
  return {grad_x, grad_shift};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "edge_stats(Tensor x, Tensor edges, Tensor? shift, SymInt rows, str which) -> (Tensor mean, "
      "Tensor var, Tensor smallest, Tensor largest, Tensor ties_smallest, Tensor ties_largest)");
  library.def(
      "edge_stats_backward(Tensor? grad_mean, Tensor? grad_var, Tensor? grad_smallest, Tensor? "
      "grad_largest, Tensor x, Tensor edges, Tensor? shift, SymInt rows, str which, Tensor mean, "
      "Tensor smallest, Tensor largest, Tensor ties_smallest, Tensor ties_largest) -> (Tensor, "
      "Tensor)");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("edge_stats", edge_stats);
  library.impl("edge_stats_backward", edge_stats_backward);
}

}  // namespace cpuaccel::ops
