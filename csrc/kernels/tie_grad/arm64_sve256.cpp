#include "kernels/csr/sve256.h"
#include "kernels/tie_grad/impl.h"

namespace cpuaccel::kernels {

void tie_grad_arm64_sve256(const TieGradCall& call, int64_t begin, int64_t end) {
  if (call.type == GraphType::f64) {
    tie_grad_by_width<SveF64x4>(call, begin, end);
  } else {
    tie_grad_by_width<SveF32x8>(call, begin, end);
  }
}

}  // namespace cpuaccel::kernels
