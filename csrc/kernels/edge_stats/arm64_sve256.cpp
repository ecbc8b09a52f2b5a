#include "kernels/csr/sve256.h"
#include "kernels/edge_stats/impl.h"

namespace cpuaccel::kernels {

bool edge_stats_arm64_sve256(const EdgeStatsCall& call, EdgeStatsStep step, int64_t begin,
                             int64_t end) {
  return edge_stats_by_type<SveF32x8, SveF64x4>(call, step, begin, end);
}

}  // namespace cpuaccel::kernels
