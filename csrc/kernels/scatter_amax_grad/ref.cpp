#include "kernels/csr/scalar.h"
#include "kernels/scatter_amax_grad/impl.h"

namespace cpuaccel::kernels {

void scatter_amax_grad_ref(const ScatterAmaxGradCall& call, int64_t begin, int64_t end) {
  if (call.type == DataType::f64) {
    scatter_amax_grad_by_width<GraphScalar<double>>(call, begin, end);
  } else {
    scatter_amax_grad_by_width<GraphScalar<float>>(call, begin, end);
  }
}

}  // namespace cpuaccel::kernels
