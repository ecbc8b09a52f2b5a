#include "kernels/csr/scalar.h"
#include "kernels/spmm/impl.h"

namespace cpuaccel::kernels {

bool spmm_ref(const SpmmCall& call, const SpmmWork& work) {
  switch (call.type) {
    case GraphType::f32:
      return by_width<GraphScalar<float>>(call, work);
    case GraphType::f64:
      return by_width<GraphScalar<double>>(call, work);
    case GraphType::bf16:
      return by_width<ScalarBf16>(call, work);
    case GraphType::f16:
      return by_width<ScalarF16>(call, work);
  }
  __builtin_unreachable();
}

}  // namespace cpuaccel::kernels
