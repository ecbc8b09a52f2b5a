// Family edge_stats: mean, variance, minimum and maximum of the messages of each node's edges in
// one pass (as in PNA), and the gradient in another.
//
//   t[e,k]        = src[col[e],k] + shift[m,k], e in row m
//   mean[m,k]     = mean over the row of t
//   var[m,k]      = mean of d^2 - (mean of d)^2, d = t minus the first t of the row: this cancels
//                   less than t itself, and equal messages have a variance of 0
//   smallest[m,k] = min over the row of t; ties_smallest is the number of t equal to it
//   largest[m,k]  = max over the row of t; ties_largest likewise
//
// All are 0 in rows without entries. In both extremes NaN wins over any number, with 0 ties. The
// gradient of an extreme is divided by its ties, plus one if the extreme is 0, as in torch's
// scatter_reduce over zeros. src and grad_src are N x K, all else M x K, all dense. Sums are in the
// order of the entries, so that the bits do not depend on the number of threads.
// Bound: a row of src for each entry; in the gradient, a row of src is read and a row of grad_src
// updated.
#pragma once

#include <span>

#include "base/api.h"
#include "kernels/csr/csr.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Results. Either all of them are given, or one extreme alone. mean and var come together, and each
// extreme with its ties.
struct EdgeStats {
  void* mean = nullptr;
  void* var = nullptr;
  void* smallest = nullptr;
  void* largest = nullptr;
  void* ties_smallest = nullptr;
  void* ties_largest = nullptr;
};

struct EdgeStatsCall {
  Csr csr;
  int64_t K = 0;
  DataType type = DataType::f32;  // f32 or f64
  const void* src = nullptr;
  const void* shift = nullptr;  // null: zeros
  EdgeStats stats;              // for the gradient, the results of the call before, without var

  // For the gradient: that of each result, null if zero. Adds to grad_src.
  const void* grad_mean = nullptr;
  const void* grad_var = nullptr;
  const void* grad_smallest = nullptr;
  const void* grad_largest = nullptr;
  void* grad_src = nullptr;
  void* grad_shift = nullptr;
};

enum class EdgeStatsStep : uint8_t { stats, gradient };

// Runs a step for rows [begin, end), or for columns in the gradient. False if csr has a column
// outside of [0, N).
using EdgeStatsFunction = bool(const EdgeStatsCall& call, EdgeStatsStep step, int64_t begin,
                               int64_t end);

#define CPUACCEL_KERNEL(name) EdgeStatsFunction edge_stats_##name;
#include "kernels/edge_stats/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<EdgeStatsFunction>> edge_stats_kernels();

// Computes everything on all of torch's threads, each with its rows, or its columns in the
// gradient.
CPUACCEL_API CsrFault edge_stats(const EdgeStatsCall& call, EdgeStatsFunction* function);
CPUACCEL_API CsrFault edge_stats(const EdgeStatsCall& call);  // uses the best usable row
CPUACCEL_API CsrFault edge_stats_gradient(const EdgeStatsCall& call, EdgeStatsFunction* function);
CPUACCEL_API CsrFault edge_stats_gradient(const EdgeStatsCall& call);

}  // namespace cpuaccel::kernels
