#include "kernels/csr/avx512.h"
#include "kernels/edge_heads/impl.h"

namespace cpuaccel::kernels {

void edge_heads_x86_avx512(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  edge_heads_by_type<GraphF32x16, GraphF32x8, GraphF64x8>(call, row, rows);
}

}  // namespace cpuaccel::kernels
