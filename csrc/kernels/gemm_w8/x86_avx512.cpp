#include "kernels/float_vectors/avx512.h"
#include "kernels/gemm_w8/tile_x86.h"

namespace cpuaccel::kernels {
namespace {

struct Weights16 : Floats16 {
  using Bytes = __m512i;
  CPUACCEL_INLINE static Bytes load_bytes(const int8_t* from) { return _mm512_loadu_si512(from); }
  template <int kStep>
  CPUACCEL_INLINE static Vector widen(Bytes bytes) {
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(bytes, 24 - 8 * kStep), 24));
  }
};

}  // namespace

const GemmW8Kernels& gemm_w8_x86_avx512() { return kGemmW8<Weights16, 8>; }

}  // namespace cpuaccel::kernels
