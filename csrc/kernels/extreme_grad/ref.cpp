#include "kernels/csr/scalar.h"
#include "kernels/extreme_grad/impl.h"

namespace cpuaccel::kernels {

void extreme_grad_ref(const ExtremeGradCall& call, ExtremeGradStep step, int64_t row,
                      int64_t rows) {
  extreme_grad_by_type<GraphScalar<float>, GraphScalar<double>>(call, step, row, rows);
}

}  // namespace cpuaccel::kernels
