#include "kernels/float_vectors/exp_sve256.h"
#include "kernels/minmax/impl.h"

namespace cpuaccel::kernels {
namespace {

struct SveMinmax : SveExpFloats8 {
  CPUACCEL_INLINE static float smallest(Vector v) { return svminv_f32(all(), v); }
  CPUACCEL_INLINE static float largest(Vector v) { return svmaxv_f32(all(), v); }
};

}  // namespace

MinMax minmax_arm64_sve256(const float* src, int64_t count) {
  return minmax_by<SveMinmax, 4>(src, count);
}

}  // namespace cpuaccel::kernels
