#include "kernels/gemm/sve.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_bf16/pairs_neon.h"
#include "kernels/gemm_bf16/quad_tile_sve.h"

namespace cpuaccel::kernels {
namespace {

const GemmKernels& pair_kernels() {
  using V = SveFloats;
  static const GemmKernels kernels = pairs_with(V::kRows, V::kVectors * V::lanes(), sve_quad_tiles);
  return kernels;
}

}  // namespace

const GemmBf16Kernels& gemm_bf16_arm64_sve() {
  static constexpr GemmBf16Kernels kernels = quads_with(pair_kernels);
  return kernels;
}

}  // namespace cpuaccel::kernels
