#include <arm_sve.h>

#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {

void clamp_arm64_sve256(const uint8_t* src, uint8_t* dst, int64_t count, uint8_t low,
                        uint8_t high) {
  constexpr int64_t kBytes = 32;
  for (int64_t i = 0; i < count; i += kBytes) {
    const svbool_t m = svwhilelt_b8_s64(i, count);
    const svuint8_t x = svmax_n_u8_x(m, svld1_u8(m, src + i), low);
    svst1_u8(m, dst + i, svmin_n_u8_x(m, x, high));
  }
}

}  // namespace cpuaccel::kernels
