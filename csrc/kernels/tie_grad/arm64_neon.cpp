#include "kernels/csr/neon.h"
#include "kernels/tie_grad/impl.h"

namespace cpuaccel::kernels {

void tie_grad_arm64_neon(const TieGradCall& call, int64_t begin, int64_t end) {
  if (call.type == GraphType::f64) {
    tie_grad_by_width<GraphF64x2>(call, begin, end);
  } else {
    tie_grad_by_width<GraphF32x4>(call, begin, end);
  }
}

}  // namespace cpuaccel::kernels
