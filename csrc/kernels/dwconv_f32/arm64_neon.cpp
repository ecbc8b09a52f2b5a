#include "kernels/dwconv_f32/pixels.h"
#include "kernels/dwconv_f32/planes.h"
#include "kernels/float_vectors/neon.h"

namespace cpuaccel::kernels {
namespace {

struct PartialFloats4 : Floats4 {
  CPUACCEL_INLINE static Vector load_first(const float* src, int64_t count) {
    return load(src, mask(count));
  }
  CPUACCEL_INLINE static void store_first(float* dst, Vector v, int64_t count) {
    store(dst, v, mask(count));
  }
};

}  // namespace

void dwconv_f32_arm64_neon(const DwconvF32Call& call, const DwconvF32Strip& strip, int64_t begin,
                           int64_t end, float* padded) {
  if (call.layout == ImageLayout::channels_first) {
    planes<PartialFloats4>(call, strip, begin, end, padded);
  } else {
    pixel_rows<PartialFloats4>(call, begin, end);
  }
}

}  // namespace cpuaccel::kernels
