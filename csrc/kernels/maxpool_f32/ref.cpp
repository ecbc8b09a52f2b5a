#include "kernels/maxpool_f32/window.h"

namespace cpuaccel::kernels {

void maxpool_f32_ref(const MaxpoolF32Shape& s, const float* src, float* dst, int64_t* indices) {
  for (int64_t i = 0; i < s.OH * s.OW; ++i) {
    window(s, src, rows_of(s, i / s.OW), columns_of(s, i % s.OW), dst[i], indices[i]);
  }
}

}  // namespace cpuaccel::kernels
