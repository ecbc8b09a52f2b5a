// What the gemm_bf16 rows with BFMMLA (Arm) share besides their tiles. Included by ISA sources
// only.
#pragma once

#include <cstdint>

#include "kernels/gemm/dot.h"
#include "kernels/gemm/neon.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_bf16/quads_neon.h"

namespace cpuaccel::kernels {
namespace {

// dot.h with four pairs instead of four floats.
struct NeonPairs : NeonFloats {
  CPUACCEL_INLINE static void accumulate(Vector& sum, Vector a, Vector b) {
    asm("bfdot %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(b));
  }
};

constexpr DotFunction* kNeonPairDots = dot_elements<NeonPairs, NeonPairs::F32>;

constexpr GemmKernels pairs_with(int64_t mr, int64_t nr, TileFunction* tile, DotFunction* dot) {
  return {
      .mr = mr,
      .nr = nr,
      .dot_rows = DotTiles6x4::kRows,
      // BFMMLA is twice as fast as BFDOT, and packing an element takes an eighth of a cycle.
      .dot_most = {8, 8},
      .tile = tile,
      .dot = dot,
      .rows = nullptr,  // B is packed, or goes to dot
      .load = load_block<Elements4>,
      .panels = load_panel_block<Elements4>,
      .store = store_run<Elements4>,
      .pixels = nullptr,  // there are no images of pairs
  };
}

constexpr GemmBf16Kernels quads_with(GemmFunction* pairs) {
  return {
      .pairs = pairs,
      .together = 2,
      .interleaved = 2,
      .rows = plain_rows,
      .tile_rows = row_quads,
      .panels = panel_quads,
  };
}

}  // namespace
}  // namespace cpuaccel::kernels
