#include "kernels/byte_vectors/avx512.h"
#include "kernels/peaks/loops.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {

int64_t peak_int8_x86_avx512(int64_t iterations) {
  __m512i a = _mm512_set1_epi16(1);
  const __m512i b = opaque(a);
  return repeat<16, __m512i>(iterations, 32, [=](__m512i sum) mutable {
    CPUACCEL_OPAQUE(CPUACCEL_VECTOR, a);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
  });
}

int64_t peak_int8_saturating_x86_avx512(int64_t iterations) {
  __m512i a = _mm512_set1_epi8(1);
  const __m512i b = opaque(a), ones = opaque(_mm512_set1_epi16(1));
  return repeat<16, __m512i>(iterations, 64, [=](__m512i sum) mutable {
    CPUACCEL_OPAQUE(CPUACCEL_VECTOR, a);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), ones));
  });
}

int64_t peak_fp32_x86_avx512(int64_t iterations) {
  const __m512 a = opaque(_mm512_set1_ps(1.0f)), b = opaque(_mm512_setzero_ps());
  return repeat<16, __m512>(iterations, 16, [=](__m512 sum) { return _mm512_fmadd_ps(a, b, sum); });
}

void peak_read_x86_avx512(const std::byte* src, std::byte* /*dst*/, int64_t bytes) {
  const ReadAhead ahead = read_ahead();
  const bool asks_for_pages = ahead.mask == kReadAheadOfPages.mask;
  for (int64_t i = 0; i < bytes; i += 512) {
    if (asks_for_pages) {
      ahead.ask(src + i);
    }
#pragma GCC unroll 8
    for (int64_t part = 0; part < 512; part += 64) {
      if (ahead.into_l2) {  // the loads themselves fetch lines into L1
        ahead.ask(src + i + part);
      }
      const __m512i value = _mm512_load_si512(src + i + part);
      CPUACCEL_USED(CPUACCEL_VECTOR, value);
    }
  }
}

void peak_copy_x86_avx512(const std::byte* src, std::byte* dst, int64_t bytes) {
  copy_by<Bytes64>(src, dst, bytes);
}

}  // namespace cpuaccel::kernels
