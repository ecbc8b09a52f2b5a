#include "kernels/csr/neon.h"
#include "kernels/edge_stats/impl.h"

namespace cpuaccel::kernels {

bool edge_stats_arm64_neon(const EdgeStatsCall& call, EdgeStatsStep step, int64_t begin,
                           int64_t end) {
  return edge_stats_by_type<GraphF32x4, GraphF64x2>(call, step, begin, end);
}

}  // namespace cpuaccel::kernels
