#include "kernels/attention/groups_avx2.h"
#include "kernels/attention/impl.h"
#include "kernels/float_vectors/exp_avx512.h"

namespace cpuaccel::kernels {
namespace {

struct RoundedFloats16 : ExpFloats16 {
  CPUACCEL_INLINE static void store_bf16(uint16_t* dst, Vector v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), rounded(v));
  }
  CPUACCEL_INLINE static void store_bf16(uint16_t* dst, Vector v, Mask mask) {
    _mm256_mask_storeu_epi16(dst, mask, rounded(v));
  }

 private:
  CPUACCEL_INLINE static __m256i rounded(Vector v) {
    return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v));
  }
};

}  // namespace

const AttentionKernels& attention_x86_avx512bf16() {
  return kAttentionKernelsOfGroups<RoundedFloats16, kGroupsAvx2>;
}

}  // namespace cpuaccel::kernels
