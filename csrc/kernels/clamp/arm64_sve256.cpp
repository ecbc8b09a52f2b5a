#include <arm_sve.h>

#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {

void clamp_arm64_sve256(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  constexpr int64_t kBytes = 32;
  for (int64_t i = 0; i < count; i += kBytes) {
    const svbool_t m = svwhilelt_b8_s64(i, count);
    const svuint8_t value = sveor_n_u8_x(m, svld1_u8(m, src + i), limits.flipped_bits);
    const svuint8_t limited = svmin_n_u8_x(m, svmax_n_u8_x(m, value, limits.low), limits.high);
    svst1_u8(m, dst + i, sveor_n_u8_x(m, limited, limits.flipped_bits));
  }
}

}  // namespace cpuaccel::kernels
