#include "kernels/csr/scalar.h"
#include "kernels/sddmm/impl.h"

namespace cpuaccel::kernels {

bool sddmm_ref(const SddmmCall& call, int64_t row, int64_t begin, int64_t end) {
  return by_type<GraphScalar<float>, GraphScalar<double>, GraphHalf<bf16_to_float, float_to_bf16>,
                 GraphHalf<f16_to_float, float_to_f16>>(call, row, begin, end);
}

}  // namespace cpuaccel::kernels
