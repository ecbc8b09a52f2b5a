#include "kernels/gemm/dot_sve.h"
#include "kernels/gemm/sve.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_bf16/pairs_neon.h"
#include "kernels/gemm_bf16/quad_tile_sve.h"

namespace cpuaccel::kernels {
namespace {

struct SvePairs {
  CPUACCEL_INLINE static void accumulate(svfloat32_t& sum, svfloat32_t a, svfloat32_t b) {
    asm("bfdot %0.s, %1.h, %2.h" : "+w"(sum) : "w"(a), "w"(b));
  }
};

const GemmKernels& pair_kernels() {
  using V = SveFloats;  // with 128-bit vectors NEON's loops take fewer instructions
  static const GemmKernels kernels =
      pairs_with(V::kRows, V::kVectors * V::lanes(), sve_quad_tiles,
                 V::lanes() > NeonFloats::kLanes ? sve_dot<SvePairs, V::F32> : kNeonPairDots);
  return kernels;
}

}  // namespace

const GemmBf16Kernels& gemm_bf16_arm64_sve() {
  static constexpr GemmBf16Kernels kernels = quads_with(pair_kernels);
  return kernels;
}

}  // namespace cpuaccel::kernels
