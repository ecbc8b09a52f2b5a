#include "kernels/csr/neon.h"
#include "kernels/extreme_grad/impl.h"

namespace cpuaccel::kernels {

void extreme_grad_arm64_neon(const ExtremeGradCall& call, ExtremeGradStep step, int64_t row,
                             int64_t rows) {
  extreme_grad_by_type<GraphF32x4, GraphF64x2>(call, step, row, rows);
}

}  // namespace cpuaccel::kernels
