#include <immintrin.h>

#include "kernels/peaks/peak_kernels.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {
namespace {

constexpr int kSums = 16;

}  // namespace

int64_t peak_int8_x86_avx512(int64_t iterations) {
  constexpr int kProducts = 32;
  __m512i sums[kSums] = {};
  __m512i a = _mm512_set1_epi16(1);
  __m512i b = a;
  CPUACCEL_OPAQUE("v", b);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      CPUACCEL_OPAQUE("v", a);
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
      CPUACCEL_OPAQUE("v", sum);
    }
  }
  return iterations * kSums * kProducts;
}

int64_t peak_int8_saturating_x86_avx512(int64_t iterations) {
  constexpr int kProducts = 64;
  __m512i sums[kSums] = {};
  __m512i a = _mm512_set1_epi8(1);
  __m512i b = a;
  __m512i ones = _mm512_set1_epi16(1);
  CPUACCEL_OPAQUE("v", b);
  CPUACCEL_OPAQUE("v", ones);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      CPUACCEL_OPAQUE("v", a);
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), ones));
      CPUACCEL_OPAQUE("v", sum);
    }
  }
  return iterations * kSums * kProducts;
}

int64_t peak_fp32_x86_avx512(int64_t iterations) {
  constexpr int kProducts = 16;
  __m512 sums[kSums] = {};
  __m512 a = _mm512_set1_ps(1.0f);
  __m512 b = _mm512_setzero_ps();
  CPUACCEL_OPAQUE("v", a);
  CPUACCEL_OPAQUE("v", b);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      sum = _mm512_fmadd_ps(a, b, sum);
      CPUACCEL_OPAQUE("v", sum);
    }
  }
  return iterations * kSums * kProducts;
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
      CPUACCEL_USED("v", value);
    }
  }
}

void peak_copy_x86_avx512(const std::byte* src, std::byte* dst, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 8
    for (int64_t part = 0; part < 512; part += 64) {
      __m512i value = _mm512_load_si512(src + i + part);
      CPUACCEL_OPAQUE("v", value);
      _mm512_store_si512(dst + i + part, value);
    }
  }
}

}  // namespace cpuaccel::kernels
