#include "kernels/qgemm_wq/dot_rows_neon.h"

namespace cpuaccel::kernels {
namespace {

// Armv8.0 has no dot products: products of 16 bits, which are added in pairs.
struct Smull {
  template <int kLane>
  CPUACCEL_INLINE static void dot(int32x4_t& sum, int8x16_t codes, int8x16_t rows) {
    const int8x16_t row = vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(rows), kLane));
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(codes), vget_low_s8(row)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(codes, row));
    sum = vaddq_s32(sum, vpaddq_s32(low, high));
  }
};

}  // namespace

const QgemmWqKernels& qgemm_wq_arm64_neon() {
  static constexpr QgemmWqKernels kernels{dot_tiles<Smull>};
  return kernels;
}

}  // namespace cpuaccel::kernels
