#include "kernels/float_vectors/exp_avx2.h"
#include "kernels/minmax/impl.h"

namespace cpuaccel::kernels {
namespace {

struct Minmax8 : ExpFloats8 {
  CPUACCEL_INLINE static float smallest(Vector v) {
    return best_lane(v, [](float a, float b) { return a < b; });
  }
  CPUACCEL_INLINE static float largest(Vector v) {
    return best_lane(v, [](float a, float b) { return a > b; });
  }
  template <typename Better>
  CPUACCEL_INLINE static float best_lane(Vector v, Better better) {
    float lanes[kLanes];
    store(lanes, v);
    float best = lanes[0];
    for (const float lane : lanes) {
      best = better(lane, best) ? lane : best;
    }
    return best;
  }
};

}  // namespace

MinMax minmax_x86_avx2(const float* src, int64_t count) {
  return minmax_by<Minmax8, 2>(src, count);
}

}  // namespace cpuaccel::kernels
