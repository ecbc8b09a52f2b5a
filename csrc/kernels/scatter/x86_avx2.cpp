#include "kernels/csr/avx2.h"
#include "kernels/csr/scalar.h"
#include "kernels/scatter/impl.h"

namespace cpuaccel::kernels {

void scatter_x86_avx2(const ScatterCall& call, const ScatterWork& work) {
  if (call.type == GraphType::f64) {
    scatter_by_width<GraphF64x4, GraphF64x2, GraphScalar<double>>(call, work);
  } else {
    scatter_by_width<GraphF32x8, GraphF32x4, GraphScalar<float>>(call, work);
  }
}

}  // namespace cpuaccel::kernels
