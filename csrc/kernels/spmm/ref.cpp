#include "kernels/csr/scalar.h"
#include "kernels/spmm/impl.h"

namespace cpuaccel::kernels {

bool spmm_ref(const SpmmCall& call, const SpmmWork& work) {
  return by_type<GraphScalar<float>, GraphScalar<double>, GraphHalf<bf16_to_float, float_to_bf16>,
                 GraphHalf<f16_to_float, float_to_f16>>(call, work);
}

}  // namespace cpuaccel::kernels
