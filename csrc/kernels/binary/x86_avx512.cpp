#include <immintrin.h>

#include "kernels/binary/vectors.h"

namespace cpuaccel::kernels {
namespace {

struct Avx512 {
  using Bytes = __m512i;
  using Floats = __m512;
  static constexpr int64_t kBytes = 64;
  static Bytes load(const uint8_t* src) { return _mm512_loadu_si512(src); }
  static void store(uint8_t* dst, Bytes value) { _mm512_storeu_si512(dst, value); }
  static Bytes low8(Bytes x) { return _mm512_unpacklo_epi8(x, _mm512_setzero_si512()); }
  static Bytes high8(Bytes x) { return _mm512_unpackhi_epi8(x, _mm512_setzero_si512()); }
  static Bytes low16(Bytes x) { return _mm512_unpacklo_epi16(x, _mm512_setzero_si512()); }
  static Bytes high16(Bytes x) { return _mm512_unpackhi_epi16(x, _mm512_setzero_si512()); }
  static Bytes product_low(Bytes a, Bytes b) {
    return _mm512_unpacklo_epi16(_mm512_mullo_epi16(a, b), _mm512_mulhi_epi16(a, b));
  }
  static Bytes product_high(Bytes a, Bytes b) {
    return _mm512_unpackhi_epi16(_mm512_mullo_epi16(a, b), _mm512_mulhi_epi16(a, b));
  }
  static Bytes subtract16(Bytes a, Bytes b) { return _mm512_sub_epi16(a, b); }
  static Floats to_floats(Bytes x) { return _mm512_cvtepi32_ps(x); }
  static Bytes fill16(int16_t value) { return _mm512_set1_epi16(value); }
  static Bytes fill8(int8_t value) { return _mm512_set1_epi8(value); }
  static Floats fill(float value) { return _mm512_set1_ps(value); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Bytes pack(Floats a, Floats b, Floats c, Floats d, Bytes zero_point) {
    const Bytes low = _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
    const Bytes high = _mm512_packs_epi32(_mm512_cvtps_epi32(c), _mm512_cvtps_epi32(d));
    return _mm512_packus_epi16(_mm512_adds_epi16(low, zero_point),
                               _mm512_adds_epi16(high, zero_point));
  }
  static Bytes max8(Bytes a, Bytes b) { return _mm512_max_epu8(a, b); }
};

}  // namespace

void add_x86_avx512(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                    const BinaryQuantizers& q) {
  binary_by_vectors<Avx512, Sum>(a, b, dst, count, q);
}

void mul_x86_avx512(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                    const BinaryQuantizers& q) {
  binary_by_vectors<Avx512, Product>(a, b, dst, count, q);
}

}  // namespace cpuaccel::kernels
