#include "kernels/csr/scalar.h"
#include "kernels/scatter/impl.h"

namespace cpuaccel::kernels {

void scatter_ref(const ScatterCall& call, const ScatterWork& work) {
  if (call.type == GraphType::f64) {
    scatter_by_width<GraphScalar<double>>(call, work);
  } else {
    scatter_by_width<GraphScalar<float>>(call, work);
  }
}

}  // namespace cpuaccel::kernels
