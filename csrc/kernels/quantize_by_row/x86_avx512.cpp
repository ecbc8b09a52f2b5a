#include "kernels/float_vectors/exp_avx512.h"
#include "kernels/quantize_by_row/impl.h"

namespace cpuaccel::kernels {
namespace {

struct Rows16 : ExpFloats16 {
  static constexpr int kByteVectors = 1;

  CPUACCEL_INLINE static void store_bytes(int8_t* dst, const Vector (&v)[kByteVectors],
                                          int32_t zero_point) {
    const __m512i integers =
        _mm512_add_epi32(_mm512_cvtps_epi32(v[0]), _mm512_set1_epi32(zero_point));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), _mm512_cvtepi32_epi8(integers));
  }
};

}  // namespace

const QuantizeByRowKernels& quantize_by_row_x86_avx512() { return kQuantizeByRow<Rows16>; }

}  // namespace cpuaccel::kernels
