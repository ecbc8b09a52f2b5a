#include <immintrin.h>

#include "kernels/maxpool/separable.h"

namespace cpuaccel::kernels {
namespace {

struct Avx512 {
  using Type = __m512i;
  static constexpr int64_t kBytes = 64;
  static Type load(const uint8_t* src) { return _mm512_loadu_si512(src); }
  static void store(uint8_t* dst, Type value) { _mm512_storeu_si512(dst, value); }
  static Type max(Type a, Type b) { return _mm512_max_epu8(a, b); }
  template <int kTaps>
  static void tail(const uint8_t* src, int64_t stride, int64_t taps, uint8_t* dst, int64_t bytes) {
    const __mmask64 mask = (uint64_t{1} << bytes) - 1;  // bytes < 64
    Type largest = _mm512_maskz_loadu_epi8(mask, src);
    for (int64_t k = 1; k < taps; ++k) {
      src += stride;
      largest = _mm512_max_epu8(largest, _mm512_maskz_loadu_epi8(mask, src));
    }
    _mm512_mask_storeu_epi8(dst, mask, largest);
  }
};

}  // namespace

void maxpool_x86_avx512(const MaxpoolShape& shape, const uint8_t* image, int64_t oh,
                        uint8_t* dst_row, uint8_t* scratch) {
  maxpool_separable<Avx512>(shape, image, oh, dst_row, scratch);
}

}  // namespace cpuaccel::kernels
