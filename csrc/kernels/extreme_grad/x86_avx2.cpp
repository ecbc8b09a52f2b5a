#include "kernels/csr/avx2.h"
#include "kernels/extreme_grad/impl.h"

namespace cpuaccel::kernels {

void extreme_grad_x86_avx2(const ExtremeGradCall& call, ExtremeGradStep step, int64_t row,
                           int64_t rows) {
  extreme_grad_by_type<GraphF32x8, GraphF64x4>(call, step, row, rows);
}

}  // namespace cpuaccel::kernels
