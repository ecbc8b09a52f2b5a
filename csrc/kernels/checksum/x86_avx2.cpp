#include <immintrin.h>

#include "kernels/checksum/checksum.h"

namespace cpuaccel::kernels {

uint64_t checksum_x86_avx2(const uint8_t* src, int64_t blocks) {
  constexpr int64_t kAhead = 16 * kChecksumBlock;  // distance that covers the memory's latency
  uint64_t result = 0;
  for (int64_t block = 0; block < blocks; ++block, src += kChecksumBlock) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int i = 0; i < 8; ++i) {
      if (i % 2 == 0) {
        _mm_prefetch(reinterpret_cast<const char*>(src) + kAhead + 32 * i, _MM_HINT_T0);
      }
      const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src) + i);
      const __m256i keyed = _mm256_add_epi32(
          words, _mm256_load_si256(reinterpret_cast<const __m256i*>(kChecksumKeys) + i));
      const __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
      sums[i % 2] = _mm256_add_epi64(sums[i % 2], _mm256_add_epi64(product, words));
    }
    const __m256i sum = _mm256_add_epi64(sums[0], sums[1]);
    const __m128i half =
        _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    const auto total = static_cast<uint64_t>(_mm_cvtsi128_si64(half)) +
                       static_cast<uint64_t>(_mm_extract_epi64(half, 1));
    result = result * kChecksumFactor + total;
  }
  return result;
}

}  // namespace cpuaccel::kernels
