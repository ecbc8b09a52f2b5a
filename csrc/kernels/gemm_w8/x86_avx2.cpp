#include "kernels/float_vectors/avx2.h"
#include "kernels/gemm_w8/tile_x86.h"

namespace cpuaccel::kernels {
namespace {

struct Weights8 : Floats8 {
  using Bytes = __m256i;
  CPUACCEL_INLINE static Bytes load_bytes(const int8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  template <int kStep>
  CPUACCEL_INLINE static Vector widen(Bytes bytes) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(bytes, 24 - 8 * kStep), 24));
  }
};

}  // namespace

const GemmW8Kernels& gemm_w8_x86_avx2() { return kGemmW8<Weights8, 4>; }

}  // namespace cpuaccel::kernels
