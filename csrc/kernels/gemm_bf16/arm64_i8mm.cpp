#include "kernels/gemm/neon.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_bf16/pairs_neon.h"
#include "kernels/gemm_bf16/quad_tile_neon.h"

namespace cpuaccel::kernels {
namespace {

const GemmKernels& pair_kernels() {
  using V = NeonFloats;
  static constexpr GemmKernels kernels =
      pairs_with(V::kRows, V::kVectors * V::kLanes, quad_tiles, kNeonPairDots);
  return kernels;
}

}  // namespace

const GemmBf16Kernels& gemm_bf16_arm64_i8mm() {
  static constexpr GemmBf16Kernels kernels = quads_with(pair_kernels);
  return kernels;
}

}  // namespace cpuaccel::kernels
