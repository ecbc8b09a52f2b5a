#include "kernels/csr/avx512.h"
#include "kernels/extreme_grad/impl.h"

namespace cpuaccel::kernels {

void extreme_grad_x86_avx512(const ExtremeGradCall& call, ExtremeGradStep step, int64_t row,
                             int64_t rows) {
  extreme_grad_by_type<GraphF32x16, GraphF64x8>(call, step, row, rows);
}

}  // namespace cpuaccel::kernels
