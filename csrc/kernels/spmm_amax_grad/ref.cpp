#include "kernels/csr/scalar.h"
#include "kernels/spmm_amax_grad/impl.h"

namespace cpuaccel::kernels {

void spmm_amax_grad_ref(const SpmmAmaxGradCall& call, SpmmAmaxGradStep step, int64_t row,
                        int64_t rows) {
  spmm_amax_grad_by_type<GraphScalar<float>, GraphScalar<double>>(call, step, row, rows);
}

}  // namespace cpuaccel::kernels
