#include <algorithm>

#include "kernels/any_byte_above/any_byte_above.h"

namespace cpuaccel::kernels {

bool any_byte_above_ref(const uint8_t* src, int64_t count, uint8_t limit) {
  for (int64_t i = 0; i < count; i += kAnyByteAboveBlock) {
    const int64_t end = std::min(count, i + kAnyByteAboveBlock);
    uint8_t largest = 0;
    for (int64_t k = i; k < end; ++k) {
      largest = std::max(largest, src[k]);
    }
    if (largest > limit) {
      return true;
    }
  }
  return false;
}

}  // namespace cpuaccel::kernels
