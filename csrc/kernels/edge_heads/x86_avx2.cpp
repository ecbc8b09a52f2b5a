#include "kernels/csr/avx2.h"
#include "kernels/edge_heads/impl.h"

namespace cpuaccel::kernels {

void edge_heads_x86_avx2(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  edge_heads_by_type<GraphF32x8, GraphF32x8, GraphF64x4>(call, row, rows);
}

}  // namespace cpuaccel::kernels
