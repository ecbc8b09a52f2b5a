#include <immintrin.h>

#include "kernels/maxpool/separable.h"

namespace cpuaccel::kernels {
namespace {

struct Sse {
  using Type = __m128i;
  static constexpr int64_t kBytes = 16;
  static Type load(const uint8_t* src) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
  }
  static void store(uint8_t* dst, Type value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), value);
  }
  static Type max(Type a, Type b) { return _mm_max_epu8(a, b); }
};

struct Quarter {
  using Type = __m128i;
  static constexpr int64_t kBytes = 8;
  static Type load(const uint8_t* src) { return _mm_loadu_si64(src); }
  static void store(uint8_t* dst, Type value) { _mm_storeu_si64(dst, value); }
  static Type max(Type a, Type b) { return _mm_max_epu8(a, b); }
};

struct Avx2 {
  using Type = __m256i;
  static constexpr int64_t kBytes = 32;
  static Type load(const uint8_t* src) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
  }
  static void store(uint8_t* dst, Type value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), value);
  }
  static Type max(Type a, Type b) { return _mm256_max_epu8(a, b); }
  template <int kTaps>
  static void tail(const uint8_t* src, int64_t stride, int64_t taps, uint8_t* dst, int64_t bytes) {
    if (bytes >= Sse::kBytes) {
      max_of_two<Sse, kTaps>(src, stride, taps, dst, bytes);
    } else if (bytes >= Quarter::kBytes) {
      max_of_two<Quarter, kTaps>(src, stride, taps, dst, bytes);
    } else {
      max_of_bytes(src, stride, taps, dst, bytes);
    }
  }
};

}  // namespace

void maxpool_x86_avx2(const MaxpoolShape& shape, const uint8_t* image, int64_t oh, uint8_t* dst_row,
                      uint8_t* scratch) {
  maxpool_separable<Avx2>(shape, image, oh, dst_row, scratch);
}

}  // namespace cpuaccel::kernels
