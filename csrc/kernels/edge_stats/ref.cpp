#include "kernels/csr/scalar.h"
#include "kernels/edge_stats/impl.h"

namespace cpuaccel::kernels {

bool edge_stats_ref(const EdgeStatsCall& call, EdgeStatsStep step, int64_t begin, int64_t end) {
  return edge_stats_by_type<GraphScalar<float>, GraphScalar<double>>(call, step, begin, end);
}

}  // namespace cpuaccel::kernels
