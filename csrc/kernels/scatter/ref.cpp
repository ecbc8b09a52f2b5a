#include "kernels/csr/scalar.h"
#include "kernels/scatter/impl.h"

namespace cpuaccel::kernels {

void scatter_ref(const ScatterCall& call, const ScatterWork& work) {
  switch (call.type) {
    case GraphType::f32:
      return scatter_by_width<GraphScalar<float>>(call, work);
    case GraphType::f64:
      return scatter_by_width<GraphScalar<double>>(call, work);
    case GraphType::bf16:
      return scatter_by_width<ScalarBf16>(call, work);
    case GraphType::f16:
      return scatter_by_width<ScalarF16>(call, work);
  }
}

}  // namespace cpuaccel::kernels
