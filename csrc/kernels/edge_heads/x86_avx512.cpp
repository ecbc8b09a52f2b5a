#include "kernels/csr/heads_avx2.h"
#include "kernels/csr/heads_avx512.h"
#include "kernels/edge_heads/impl.h"

namespace cpuaccel::kernels {

void edge_heads_x86_avx512(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  if (call.type == DataType::f64) {
    edge_heads_by_width<HeadsF64x8, HeadsF64x8>(call, row, rows);
  } else {
    edge_heads_by_width<HeadsF32x16, HeadsF32x8>(call, row, rows);
  }
}

}  // namespace cpuaccel::kernels
