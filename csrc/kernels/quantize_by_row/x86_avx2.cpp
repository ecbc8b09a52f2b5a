#include "kernels/float_vectors/exp_avx2.h"
#include "kernels/quantize_by_row/impl.h"

namespace cpuaccel::kernels {
namespace {

struct Rows8 : ExpFloats8 {
  static constexpr int kByteVectors = 4;

  // The packs interleave halves of 128 bits; the permutation restores the order of groups of four
  // bytes.
  CPUACCEL_INLINE static void store_bytes(int8_t* dst, const Vector (&v)[kByteVectors],
                                          int32_t zero_point) {
    const __m256i added = _mm256_set1_epi16(static_cast<int16_t>(zero_point));
    const __m256i words = _mm256_adds_epi16(as_words(v[0], v[1]), added);
    const __m256i more = _mm256_adds_epi16(as_words(v[2], v[3]), added);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst),
                        _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words, more), order));
  }

 private:
  CPUACCEL_INLINE static __m256i as_words(Vector a, Vector b) {
    return _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
  }
};

}  // namespace

const QuantizeByRowKernels& quantize_by_row_x86_avx2() { return kQuantizeByRow<Rows8>; }

}  // namespace cpuaccel::kernels
