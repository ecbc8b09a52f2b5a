#include "kernels/gemm/dot.h"
#include "kernels/gemm/neon.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_bf16/quad_tile_neon.h"
#include "kernels/gemm_bf16/quads_neon.h"

namespace cpuaccel::kernels {
namespace {

// Four pairs where dot.h has four floats.
struct NeonPairs : NeonFloats {
  CPUACCEL_INLINE static void accumulate(Vector& sum, Vector a, Vector b) {
    asm("bfdot %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(b));
  }
};

const GemmKernels& pair_kernels() {
  using V = NeonPairs;
  static constexpr GemmKernels kernels{
      .mr = V::kRows,
      .nr = V::kVectors * V::kLanes,
      .tile = quad_tiles,
      .dot = dot_elements<V, V::F32>,
      .rows = nullptr,  // B comes packed, or goes to dot
      .load = load_block<Elements4>,
      .panels = load_panel_block<Elements4>,
      .store = store_run<Elements4>,
      .pixels = nullptr,  // there are no images of pairs
  };
  return kernels;
}

}  // namespace

const GemmBf16Kernels& gemm_bf16_arm64_i8mm() {
  static constexpr GemmBf16Kernels kernels{
      .pairs = pair_kernels,
      .together = 2,
      .rows = plain_rows,
      .tile_rows = row_quads,
      .panels = panel_quads,
  };
  return kernels;
}

}  // namespace cpuaccel::kernels
