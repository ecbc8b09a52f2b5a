#include "kernels/csr/avx512.h"
#include "kernels/csr/scalar.h"
#include "kernels/scatter/impl.h"

namespace cpuaccel::kernels {

void scatter_x86_avx512(const ScatterCall& call, const ScatterWork& work) {
  switch (call.type) {
    case DataType::f32:
      return scatter_by_width<GraphF32x16, GraphBesideWider<GraphF32x8>, GraphF32x4,
                              GraphScalar<float>>(call, work);
    case DataType::f64:
      return scatter_by_width<GraphF64x8, GraphBesideWider<GraphF64x4>, GraphF64x2,
                              GraphScalar<double>>(call, work);
    case DataType::bf16:
      return scatter_by_width<GraphBf16x16, GraphBesideWider<GraphBf16x8>, ScalarBf16>(call, work);
    case DataType::f16:
      return scatter_by_width<GraphF16x16, GraphBesideWider<GraphF16x8>, ScalarF16>(call, work);
    default:
      __builtin_unreachable();
  }
}

}  // namespace cpuaccel::kernels
