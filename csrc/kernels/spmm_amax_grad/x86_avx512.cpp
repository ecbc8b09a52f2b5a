#include "kernels/csr/avx512.h"
#include "kernels/spmm_amax_grad/impl.h"

namespace cpuaccel::kernels {

void spmm_amax_grad_x86_avx512(const SpmmAmaxGradCall& call, SpmmAmaxGradStep step, int64_t row,
                               int64_t rows) {
  spmm_amax_grad_by_type<GraphF32x16, GraphF64x8>(call, step, row, rows);
}

}  // namespace cpuaccel::kernels
