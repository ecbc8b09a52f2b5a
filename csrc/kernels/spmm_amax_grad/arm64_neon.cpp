#include "kernels/csr/neon.h"
#include "kernels/spmm_amax_grad/impl.h"

namespace cpuaccel::kernels {

void spmm_amax_grad_arm64_neon(const SpmmAmaxGradCall& call, SpmmAmaxGradStep step, int64_t row,
                               int64_t rows) {
  spmm_amax_grad_by_type<GraphF32x4, GraphF64x2>(call, step, row, rows);
}

}  // namespace cpuaccel::kernels
