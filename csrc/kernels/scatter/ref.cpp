#include "kernels/csr/scalar.h"
#include "kernels/scatter/impl.h"

namespace cpuaccel::kernels {

void scatter_ref(const ScatterCall& call, const ScatterWork& work) {
  switch (call.type) {
    case DataType::f32:
      return scatter_by_width<GraphScalar<float>>(call, work);
    case DataType::f64:
      return scatter_by_width<GraphScalar<double>>(call, work);
    case DataType::bf16:
      return scatter_by_width<ScalarBf16>(call, work);
    case DataType::f16:
      return scatter_by_width<ScalarF16>(call, work);
    default:
      __builtin_unreachable();
  }
}

}  // namespace cpuaccel::kernels
