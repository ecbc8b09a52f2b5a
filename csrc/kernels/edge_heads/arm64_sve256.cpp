#include "kernels/csr/heads_sve256.h"
#include "kernels/edge_heads/impl.h"

namespace cpuaccel::kernels {

void edge_heads_arm64_sve256(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  if (call.type == DataType::f64) {
    edge_heads_by_width<SveHeadsF64x4, SveHeadsF64x4>(call, row, rows);
  } else {
    edge_heads_by_width<SveHeadsF32x8, SveHeadsF32x8>(call, row, rows);
  }
}

}  // namespace cpuaccel::kernels
