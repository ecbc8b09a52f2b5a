#include "kernels/csr/avx2.h"
#include "kernels/spmm_amax_grad/impl.h"

namespace cpuaccel::kernels {

void spmm_amax_grad_x86_avx2(const SpmmAmaxGradCall& call, SpmmAmaxGradStep step, int64_t row,
                             int64_t rows) {
  spmm_amax_grad_by_type<GraphF32x8, GraphF64x4>(call, step, row, rows);
}

}  // namespace cpuaccel::kernels
