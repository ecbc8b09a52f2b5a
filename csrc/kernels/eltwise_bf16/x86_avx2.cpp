#include "kernels/eltwise_bf16/eltwise_bf16.h"
#include "kernels/eltwise_bf16/impl.h"
#include "kernels/float_vectors/pairs_avx2.h"

namespace cpuaccel::kernels {

void eltwise_bf16_x86_avx2(Activation activation, uint16_t* values, int64_t count) {
  apply_activation_bf16<Pairs8>(activation, values, count);
}

}  // namespace cpuaccel::kernels
