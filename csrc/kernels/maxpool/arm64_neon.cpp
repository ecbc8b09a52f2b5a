#include <arm_neon.h>

#include "kernels/inline.h"
#include "kernels/maxpool/separable.h"

namespace cpuaccel::kernels {
namespace {

struct Half {
  using Type = uint8x8_t;
  static constexpr int64_t kBytes = 8;
  CPUACCEL_INLINE static Type load(const uint8_t* src) { return vld1_u8(src); }
  CPUACCEL_INLINE static void store(uint8_t* dst, Type value) { vst1_u8(dst, value); }
  CPUACCEL_INLINE static Type max(Type a, Type b) { return vmax_u8(a, b); }
};

struct Neon {
  using Type = uint8x16_t;
  static constexpr int64_t kBytes = 16;
  CPUACCEL_INLINE static Type load(const uint8_t* src) { return vld1q_u8(src); }
  CPUACCEL_INLINE static void store(uint8_t* dst, Type value) { vst1q_u8(dst, value); }
  CPUACCEL_INLINE static Type max(Type a, Type b) { return vmaxq_u8(a, b); }
  template <int kTaps>
  static void tail(const uint8_t* src, int64_t stride, int64_t taps, uint8_t* dst, int64_t bytes) {
    if (bytes >= Half::kBytes) {
      max_of_two<Half, kTaps>(src, stride, taps, dst, bytes);
    } else {
      max_of_bytes(src, stride, taps, dst, bytes);
    }
  }
};

}  // namespace

void maxpool_arm64_neon(const MaxpoolShape& shape, const uint8_t* image, int64_t oh,
                        uint8_t* dst_row, uint8_t* scratch) {
  maxpool_separable<Neon>(shape, image, oh, dst_row, scratch);
}

}  // namespace cpuaccel::kernels
