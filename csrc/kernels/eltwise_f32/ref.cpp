#include <algorithm>

#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/float_vectors/activations_ref.h"

namespace cpuaccel::kernels {

void eltwise_f32_ref(Activation activation, float* values, int64_t count) {
  std::transform(values, values + count, values,
                 [&](float x) { return activation_ref(activation, x); });
}

}  // namespace cpuaccel::kernels
