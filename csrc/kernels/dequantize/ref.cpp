#include "kernels/dequantize/dequantize.h"

namespace cpuaccel::kernels {

void dequantize_ref(const uint8_t* src, float* dst, int64_t count, float scale, int32_t zero_point,
                    uint8_t flipped_bits) {
  for (int64_t i = 0; i < count; ++i) {
    dst[i] = scale * static_cast<float>((src[i] ^ flipped_bits) - zero_point);
  }
}

}  // namespace cpuaccel::kernels
