// Family edge_stats: what the messages of a node's edges come to, all of it in one pass, and the
// gradient, in another.
//
//   t[e,k]        = src[col[e],k] + shift[m,k], e in row m
//   mean[m,k]     = mean over the row of t
//   var[m,k]      = mean of d^2 - (mean of d)^2, d = t without the first t of the row: less is
//                   cancelled than without it, and equal messages have a variance of 0
//   smallest[m,k] = min over the row of t, and in ties_smallest how many of it are that
//   largest[m,k]  = max over the row of t, likewise
//
// All are 0 in rows without entries. NaN wins over any number in both extremes, with 0 ties. The
// gradient divides that of an extreme by its ties, and one more where it is 0, as torch's
// scatter_reduce over zeros does. src and grad_src N x K, all else M x K, all dense. Sums are in
// the order of the entries: the same bits on any number of threads.
// Bound: a row of src for each entry; in the gradient, one of src is read and one of grad_src
// changed.
#pragma once

#include <span>

#include "kernels/csr/csr.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Results; mean and var are null or not together, smallest and largest each with its ties. There
// are all, or one extreme alone.
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
  GraphType type = GraphType::f32;  // f32 or f64
  const void* src = nullptr;
  const void* shift = nullptr;  // null: zeros
  EdgeStats stats;              // for the gradient what the call before it made, without var

  // Of the gradient: of these results, null where zero. Adds to grad_src.
  const void* grad_mean = nullptr;
  const void* grad_var = nullptr;
  const void* grad_smallest = nullptr;
  const void* grad_largest = nullptr;
  void* grad_src = nullptr;
  void* grad_shift = nullptr;
};

enum class EdgeStatsStep : uint8_t { stats, gradient };

// A step for rows [begin, end) or, of the gradient, columns. False if a column of csr is not of the
// N.
using EdgeStatsFunction = bool(const EdgeStatsCall& call, EdgeStatsStep step, int64_t begin,
                               int64_t end);

#if defined(__x86_64__)
#define CPUACCEL_EDGE_STATS_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_EDGE_STATS_KERNELS(row) \
  row(arm64_sve256, Isa::sve256) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_EDGE_STATS_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) EdgeStatsFunction edge_stats_##name;
CPUACCEL_EDGE_STATS_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<EdgeStatsFunction>> edge_stats_kernels();

// All of it on all of torch's threads: each has rows, or columns of the gradient.
CsrFault edge_stats(const EdgeStatsCall& call, EdgeStatsFunction* function);
CsrFault edge_stats(const EdgeStatsCall& call);  // by the best usable row
CsrFault edge_stats_gradient(const EdgeStatsCall& call, EdgeStatsFunction* function);
CsrFault edge_stats_gradient(const EdgeStatsCall& call);

}  // namespace cpuaccel::kernels
