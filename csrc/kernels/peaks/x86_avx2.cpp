#include <immintrin.h>

#include "kernels/peaks/peak_kernels.h"

namespace cpuaccel::kernels {
namespace {

// Ten sums fit into sixteen registers and hide a latency of five cycles at two instructions per
// cycle.
constexpr int kSums = 10;

// Runs sum += multiply(a, b) for kSums sums; `products` is the number of products of one
// multiply().
template <typename Multiply>
int64_t repeat_int8(int64_t iterations, int64_t products, __m256i a, const Multiply& multiply) {
  __m256i sums[kSums] = {};
  __m256i b = a;
  CPUACCEL_OPAQUE("x", b);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 10
    for (auto& sum : sums) {
      CPUACCEL_OPAQUE("x", a);
      sum = _mm256_add_epi32(sum, multiply(a, b));
      CPUACCEL_OPAQUE("x", sum);
    }
  }
  return iterations * kSums * products;
}

}  // namespace

int64_t peak_int8_x86_avx2(int64_t iterations) {
  return repeat_int8(iterations, 16, _mm256_set1_epi16(1),
                     [](__m256i a, __m256i b) { return _mm256_madd_epi16(a, b); });
}

int64_t peak_int8_saturating_x86_avx2(int64_t iterations) {
  __m256i ones = _mm256_set1_epi16(1);
  CPUACCEL_OPAQUE("x", ones);
  return repeat_int8(iterations, 32, _mm256_set1_epi8(1), [ones](__m256i a, __m256i b) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones);
  });
}

int64_t peak_int8_low_x86_avx2(int64_t iterations) {
  __m256i ones = _mm256_set1_epi16(1);
  CPUACCEL_OPAQUE("x", ones);
  return repeat_int8(iterations, 64, _mm256_set1_epi8(1), [ones](__m256i a, __m256i b) {
    const __m256i first = _mm256_maddubs_epi16(a, b);
    CPUACCEL_OPAQUE("x", a);  // keeps the compiler from reusing `first`
    return _mm256_madd_epi16(_mm256_add_epi16(first, _mm256_maddubs_epi16(a, b)), ones);
  });
}

int64_t peak_fp32_x86_avx2(int64_t iterations) {
  constexpr int kProducts = 8;
  __m256 sums[kSums] = {};
  __m256 a = _mm256_set1_ps(1.0f);
  __m256 b = _mm256_setzero_ps();
  CPUACCEL_OPAQUE("x", a);
  CPUACCEL_OPAQUE("x", b);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 10
    for (auto& sum : sums) {
      sum = _mm256_fmadd_ps(a, b, sum);
      CPUACCEL_OPAQUE("x", sum);
    }
  }
  return iterations * kSums * kProducts;
}

void peak_read_x86_avx2(const std::byte* src, std::byte* /*dst*/, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 16
    for (int64_t part = 0; part < 512; part += 32) {
      const __m256i value = _mm256_load_si256(reinterpret_cast<const __m256i*>(src + i + part));
      CPUACCEL_USED("x", value);
    }
  }
}

void peak_copy_x86_avx2(const std::byte* src, std::byte* dst, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 16
    for (int64_t part = 0; part < 512; part += 32) {
      __m256i value = _mm256_load_si256(reinterpret_cast<const __m256i*>(src + i + part));
      CPUACCEL_OPAQUE("x", value);
      _mm256_store_si256(reinterpret_cast<__m256i*>(dst + i + part), value);
    }
  }
}

}  // namespace cpuaccel::kernels
