#include "kernels/csr/avx2.h"
#include "kernels/edge_stats/impl.h"

namespace cpuaccel::kernels {

bool edge_stats_x86_avx2(const EdgeStatsCall& call, EdgeStatsStep step, int64_t begin,
                         int64_t end) {
  return edge_stats_by_type<GraphF32x8, GraphF64x4>(call, step, begin, end);
}

}  // namespace cpuaccel::kernels
