// The same as avx2.h for AVX-512. Included with AVX-512's flags only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/data_type.h"
#include "kernels/float_vectors/exp_avx512.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct WqFloats16 : ExpFloats16 {
  using Dwords = __m512i;
  static constexpr int kVectors = 2;

  CPUACCEL_INLINE static Dwords load_dwords(const std::byte* from) {
    return _mm512_loadu_si512(from);
  }
  CPUACCEL_INLINE static Vector load_scales(const std::byte* from, int64_t column, DataType type) {
    if (type == DataType::f32) {
      return load(reinterpret_cast<const float*>(from) + column);
    }
    const auto* at = reinterpret_cast<const uint16_t*>(from) + column;
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    return type == DataType::bf16
               ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))
               : _mm512_cvtph_ps(halves);
  }
  CPUACCEL_INLINE static Vector load_integers(const std::byte* from) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  CPUACCEL_INLINE static Vector minus_product(Vector sum, Vector a, Vector b) {
    return _mm512_fnmadd_ps(a, b, sum);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
