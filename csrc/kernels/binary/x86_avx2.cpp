#include <immintrin.h>

#include "kernels/binary/vectors.h"

namespace cpuaccel::kernels {
namespace {

struct Avx2 {
  using Bytes = __m256i;
  using Floats = __m256;
  static constexpr int64_t kBytes = 32;
  static Bytes load(const uint8_t* src) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
  }
  static void store(uint8_t* dst, Bytes value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), value);
  }
  static Bytes low8(Bytes x) { return _mm256_unpacklo_epi8(x, _mm256_setzero_si256()); }
  static Bytes high8(Bytes x) { return _mm256_unpackhi_epi8(x, _mm256_setzero_si256()); }
  static Bytes low16(Bytes x) { return _mm256_unpacklo_epi16(x, _mm256_setzero_si256()); }
  static Bytes high16(Bytes x) { return _mm256_unpackhi_epi16(x, _mm256_setzero_si256()); }
  static Bytes product_low(Bytes a, Bytes b) {
    return _mm256_unpacklo_epi16(_mm256_mullo_epi16(a, b), _mm256_mulhi_epi16(a, b));
  }
  static Bytes product_high(Bytes a, Bytes b) {
    return _mm256_unpackhi_epi16(_mm256_mullo_epi16(a, b), _mm256_mulhi_epi16(a, b));
  }
  static Bytes subtract16(Bytes a, Bytes b) { return _mm256_sub_epi16(a, b); }
  static Floats to_floats(Bytes x) { return _mm256_cvtepi32_ps(x); }
  static Bytes fill16(int16_t value) { return _mm256_set1_epi16(value); }
  static Bytes fill8(int8_t value) { return _mm256_set1_epi8(value); }
  static Floats fill(float value) { return _mm256_set1_ps(value); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Bytes pack(Floats a, Floats b, Floats c, Floats d, Bytes zero_point) {
    const Bytes low = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
    const Bytes high = _mm256_packs_epi32(_mm256_cvtps_epi32(c), _mm256_cvtps_epi32(d));
    return _mm256_packus_epi16(_mm256_adds_epi16(low, zero_point),
                               _mm256_adds_epi16(high, zero_point));
  }
  static Bytes max8(Bytes a, Bytes b) { return _mm256_max_epu8(a, b); }
};

}  // namespace

void add_x86_avx2(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                  const BinaryQuantizers& q) {
  binary_by_vectors<Avx2, Sum>(a, b, dst, count, q);
}

void mul_x86_avx2(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                  const BinaryQuantizers& q) {
  binary_by_vectors<Avx2, Product>(a, b, dst, count, q);
}

}  // namespace cpuaccel::kernels
