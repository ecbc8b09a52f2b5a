#include "kernels/csr/sve256.h"
#include "kernels/extreme_grad/impl.h"

namespace cpuaccel::kernels {

void extreme_grad_arm64_sve256(const ExtremeGradCall& call, ExtremeGradStep step, int64_t row,
                               int64_t rows) {
  extreme_grad_by_type<SveF32x8, SveF64x4>(call, step, row, rows);
}

}  // namespace cpuaccel::kernels
