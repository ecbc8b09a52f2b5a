#include <immintrin.h>

#include "kernels/any_byte_above/any_byte_above.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kBytes = 32;

__m256i load(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

// A saturating subtraction gives 0 for bytes of at most `limit`.
bool any_above(__m256i bytes, __m256i limit) {
  const __m256i excess = _mm256_subs_epu8(bytes, limit);
  return _mm256_testz_si256(excess, excess) == 0;
}

}  // namespace

bool any_byte_above_x86_avx2(const uint8_t* src, int64_t count, uint8_t limit) {
  const __m256i limits = _mm256_set1_epi8(static_cast<char>(limit));
  int64_t i = 0;
  while (i + 4 * kBytes <= count) {
    const int64_t block = count - i < kAnyByteAboveBlock ? count - i : kAnyByteAboveBlock;
    const int64_t end = i + block / (4 * kBytes) * (4 * kBytes);
    __m256i largest[4] = {};
    for (; i < end; i += 4 * kBytes) {
      for (int k = 0; k < 4; ++k) {
        largest[k] = _mm256_max_epu8(largest[k], load(src + i + k * kBytes));
      }
    }
    if (any_above(_mm256_max_epu8(_mm256_max_epu8(largest[0], largest[1]),
                                  _mm256_max_epu8(largest[2], largest[3])),
                  limits)) {
      return true;
    }
  }
  for (; i + kBytes <= count; i += kBytes) {
    if (any_above(load(src + i), limits)) {
      return true;
    }
  }
  for (; i < count; ++i) {
    if (src[i] > limit) {
      return true;
    }
  }
  return false;
}

}  // namespace cpuaccel::kernels
