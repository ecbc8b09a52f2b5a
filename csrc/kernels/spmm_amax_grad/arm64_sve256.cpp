#include "kernels/csr/sve256.h"
#include "kernels/spmm_amax_grad/impl.h"

namespace cpuaccel::kernels {

void spmm_amax_grad_arm64_sve256(const SpmmAmaxGradCall& call, SpmmAmaxGradStep step, int64_t row,
                                 int64_t rows) {
  spmm_amax_grad_by_type<SveF32x8, SveF64x4>(call, step, row, rows);
}

}  // namespace cpuaccel::kernels
