#include "kernels/csr/avx2.h"
#include "kernels/scatter_amax_grad/impl.h"

namespace cpuaccel::kernels {

void scatter_amax_grad_x86_avx2(const ScatterAmaxGradCall& call, int64_t begin, int64_t end) {
  if (call.type == DataType::f64) {
    scatter_amax_grad_by_width<GraphF64x4, GraphF64x2>(call, begin, end);
  } else {
    scatter_amax_grad_by_width<GraphF32x8, GraphF32x4>(call, begin, end);
  }
}

}  // namespace cpuaccel::kernels
