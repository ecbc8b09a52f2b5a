#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {

void clamp_ref(const uint8_t* src, uint8_t* dst, int64_t count, uint8_t low, uint8_t high) {
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t raised = src[i] < low ? low : src[i];
    dst[i] = raised > high ? high : raised;
  }
}

}  // namespace cpuaccel::kernels
