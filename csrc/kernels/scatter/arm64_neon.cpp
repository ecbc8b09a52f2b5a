#include "kernels/csr/halves_neon.h"
#include "kernels/csr/scalar.h"
#include "kernels/scatter/impl.h"

namespace cpuaccel::kernels {

void scatter_arm64_neon(const ScatterCall& call, const ScatterWork& work) {
  switch (call.type) {
    case DataType::f32:
      return scatter_by_width<GraphF32x4, GraphScalar<float>>(call, work);
    case DataType::f64:
      return scatter_by_width<GraphF64x2, GraphScalar<double>>(call, work);
    case DataType::bf16:
      return scatter_by_width<GraphBf16x8, GraphBesideWider<GraphBf16x4>, ScalarBf16>(call, work);
    case DataType::f16:
      return scatter_by_width<GraphF16x8, GraphBesideWider<GraphF16x4>, ScalarF16>(call, work);
    default:
      __builtin_unreachable();
  }
}

}  // namespace cpuaccel::kernels
