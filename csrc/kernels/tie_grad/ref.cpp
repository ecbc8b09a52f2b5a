#include "kernels/csr/scalar.h"
#include "kernels/tie_grad/impl.h"

namespace cpuaccel::kernels {

void tie_grad_ref(const TieGradCall& call, int64_t begin, int64_t end) {
  if (call.type == GraphType::f64) {
    tie_grad_by_width<GraphScalar<double>>(call, begin, end);
  } else {
    tie_grad_by_width<GraphScalar<float>>(call, begin, end);
  }
}

}  // namespace cpuaccel::kernels
