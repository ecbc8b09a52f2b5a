#include "kernels/float_vectors/exp_neon.h"
#include "kernels/minmax/impl.h"

namespace cpuaccel::kernels {
namespace {

struct NeonMinmax : ExpFloats4 {
  CPUACCEL_INLINE static float smallest(Vector v) { return vminvq_f32(v); }
  CPUACCEL_INLINE static float largest(Vector v) { return vmaxvq_f32(v); }
};

}  // namespace

MinMax minmax_arm64_neon(const float* src, int64_t count) {
  return minmax_by<NeonMinmax, 4>(src, count);
}

}  // namespace cpuaccel::kernels
