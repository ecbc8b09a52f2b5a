#include "kernels/csr/avx512.h"
#include "kernels/edge_stats/impl.h"

namespace cpuaccel::kernels {

bool edge_stats_x86_avx512(const EdgeStatsCall& call, EdgeStatsStep step, int64_t begin,
                           int64_t end) {
  return edge_stats_by_type<GraphF32x16, GraphF64x8>(call, step, begin, end);
}

}  // namespace cpuaccel::kernels
