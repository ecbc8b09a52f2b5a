#include "kernels/eltwise_bf16/eltwise_bf16.h"
#include "kernels/eltwise_bf16/impl.h"
#include "kernels/float_vectors/pairs_neon.h"

namespace cpuaccel::kernels {

void eltwise_bf16_arm64_neon(Activation activation, uint16_t* values, int64_t count) {
  apply_activation_bf16<Pairs4>(activation, values, count);
}

}  // namespace cpuaccel::kernels
