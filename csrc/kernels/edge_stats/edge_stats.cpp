#include "kernels/edge_stats/edge_stats.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/parallel.h"
#include "kernels/csr/cut.h"
#include "kernels/csr/pieces.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<EdgeStatsFunction>, name, edge_stats_##name)
#include "kernels/edge_stats/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kWork = 1 << 18;   // entries times columns per range
constexpr int64_t kGrain = 1 << 15;  // entries times columns per thread at least
constexpr int64_t kLine = 64;        // bytes

}  // namespace

std::span<const KernelRow<EdgeStatsFunction>> edge_stats_kernels() { return kRows; }

CsrFault edge_stats(const EdgeStatsCall& call, EdgeStatsFunction* function) {
  std::atomic<bool> good{true};
  const bool ascends = over_rows(call.csr, call.K, kWork, [&](int64_t row, int64_t rows) {
    if (!function(call, EdgeStatsStep::stats, row, row + rows)) {
      good.store(false, std::memory_order_relaxed);
    }
  });
  return !ascends ? CsrFault::crow : good ? CsrFault::none : CsrFault::col;
}

CsrFault edge_stats(const EdgeStatsCall& call) {
  return edge_stats(call, first_usable(edge_stats_kernels()).function);
}

CsrFault edge_stats_gradient(const EdgeStatsCall& call, EdgeStatsFunction* function) {
  if (!csr_ascends(call.csr)) {
    return CsrFault::crow;
  }
  // Any row may add to a row of grad_src, so that each thread owns columns.
  const int64_t unit = kLine / data_type_size(call.type);
  const int64_t work = std::max<int64_t>(1, (call.csr.nnz + call.csr.M) * unit);
  std::atomic<bool> good{true};
  parallel_for(
      0, (call.K + unit - 1) / unit, std::max<int64_t>(1, kGrain / work),
      [&](int64_t begin, int64_t end) {
        if (!function(call, EdgeStatsStep::gradient, begin * unit, std::min(call.K, end * unit))) {
          good.store(false, std::memory_order_relaxed);
        }
      });
  return good ? CsrFault::none : CsrFault::col;
}

CsrFault edge_stats_gradient(const EdgeStatsCall& call) {
  return edge_stats_gradient(call, first_usable(edge_stats_kernels()).function);
}

}  // namespace cpuaccel::kernels
