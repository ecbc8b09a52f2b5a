#include "kernels/dwconv_f32/pixels.h"
#include "kernels/dwconv_f32/planes.h"
#include "kernels/dwconv_f32/vectors.h"

namespace cpuaccel::kernels {

void dwconv_f32_x86_avx512(const DwconvF32Call& call, const DwconvF32Strip& strip, int64_t begin,
                           int64_t end, float* padded) {
  if (call.layout == ImageLayout::channels_first) {
    planes<PartialFloats16>(call, strip, begin, end, padded);
  } else {
    pixel_rows<PartialFloats16>(call, begin, end);
  }
}

}  // namespace cpuaccel::kernels
