// AVX2 vector class of scales and zero points of families gemm_wq and qgemm_wq. Included with
// AVX2's flags only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/data_type.h"
#include "kernels/float_vectors/exp_avx2.h"
#include "kernels/gemm/half_avx2.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct WqFloats8 : ExpFloats8 {
  using Dwords = __m256i;
  static constexpr int kVectors = 4;  // of a panel

  CPUACCEL_INLINE static Dwords load_dwords(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  CPUACCEL_INLINE static Vector load_scales(const std::byte* from, int64_t column, DataType type) {
    switch (type) {
      case DataType::f32:
        return load(reinterpret_cast<const float*>(from) + column);
      case DataType::bf16:
        return Bf16Elements::load(reinterpret_cast<const uint16_t*>(from) + column);
      default:
        return F16Elements::load(reinterpret_cast<const uint16_t*>(from) + column);
    }
  }
  CPUACCEL_INLINE static Vector load_integers(const std::byte* from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(from)));
  }
  // sum - a * b
  CPUACCEL_INLINE static Vector minus_product(Vector sum, Vector a, Vector b) {
    return _mm256_fnmadd_ps(a, b, sum);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
