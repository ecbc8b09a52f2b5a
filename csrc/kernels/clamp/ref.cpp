#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {

void clamp_ref(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<uint8_t>(src[i] ^ limits.flipped_bits);
    const uint8_t raised = value < limits.low ? limits.low : value;
    const uint8_t limited = raised > limits.high ? limits.high : raised;
    dst[i] = static_cast<uint8_t>(limited ^ limits.flipped_bits);
  }
}

}  // namespace cpuaccel::kernels
