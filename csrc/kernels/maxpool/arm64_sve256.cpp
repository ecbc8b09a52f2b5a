#include <arm_sve.h>

#include "kernels/inline.h"
#include "kernels/maxpool/separable.h"

namespace cpuaccel::kernels {
namespace {

struct Sve {
  using Type = svuint8_t __attribute__((arm_sve_vector_bits(256)));
  static constexpr int64_t kBytes = 32;
  CPUACCEL_INLINE static Type load(const uint8_t* src) { return svld1_u8(svptrue_b8(), src); }
  CPUACCEL_INLINE static void store(uint8_t* dst, Type value) {
    svst1_u8(svptrue_b8(), dst, value);
  }
  CPUACCEL_INLINE static Type max(Type a, Type b) { return svmax_u8_x(svptrue_b8(), a, b); }
  template <int kTaps>
  static void tail(const uint8_t* src, int64_t stride, int64_t taps, uint8_t* dst, int64_t bytes) {
    const svbool_t m = svwhilelt_b8_s64(0, bytes);
    svuint8_t largest = svld1_u8(m, src);
    const int64_t count = kTaps == 0 ? taps : kTaps;
#pragma GCC unroll 4
    for (int64_t k = 1; k < count; ++k) {
      largest = svmax_u8_x(m, largest, svld1_u8(m, src + k * stride));
    }
    svst1_u8(m, dst, largest);
  }
};

}  // namespace

void maxpool_arm64_sve256(const MaxpoolShape& shape, const uint8_t* image, int64_t oh,
                          uint8_t* dst_row, uint8_t* scratch) {
  maxpool_separable<Sve>(shape, image, oh, dst_row, scratch);
}

}  // namespace cpuaccel::kernels
