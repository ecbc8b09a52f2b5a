#include "kernels/csr/heads_neon.h"
#include "kernels/edge_heads/impl.h"

namespace cpuaccel::kernels {

void edge_heads_arm64_neon(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  if (call.type == DataType::f64) {
    edge_heads_by_width<GraphF64x2, GraphF64x2>(call, row, rows);
  } else {
    edge_heads_by_width<HeadsF32x4, HeadsF32x4>(call, row, rows);
  }
}

}  // namespace cpuaccel::kernels
