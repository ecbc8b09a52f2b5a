#include "kernels/csr/scalar.h"
#include "kernels/spmm/impl.h"

namespace cpuaccel::kernels {

bool spmm_ref(const SpmmCall& call, const SpmmWork& work) {
  switch (call.type) {
    case DataType::f32:
      return by_width<GraphScalar<float>>(call, work);
    case DataType::f64:
      return by_width<GraphScalar<double>>(call, work);
    case DataType::bf16:
      return by_width<ScalarBf16>(call, work);
    case DataType::f16:
      return by_width<ScalarF16>(call, work);
    default:
      __builtin_unreachable();
  }
}

}  // namespace cpuaccel::kernels
