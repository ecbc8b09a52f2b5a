#include "kernels/gemm/avx512.h"
#include "kernels/gemm/dot.h"
#include "kernels/gemm/tile.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_bf16/pairs_avx512bf16.h"

namespace cpuaccel::kernels {
namespace {

// Sixteen pairs where the loops have sixteen floats: loads and broadcasts move bits, a
// multiply-add is two products of bf16 added to an f32.
struct Avx512Pairs : Avx512Floats {
  CPUACCEL_INLINE static void accumulate(Vector& sum, Vector a, Vector b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  }
};

const GemmKernels& pair_kernels() {
  using V = Avx512Pairs;
  static constexpr GemmKernels kernels{
      .mr = V::kRows,
      .nr = V::kVectors * V::kLanes,
      .dot_rows = V::DotTiles::kRows,
      .dot_most = V::DotTiles::kMost,
      .tile = tiles_of<V, V::F32>,
      .dot = dot_elements<V, V::F32>,
      .rows = nullptr,  // B comes packed, or goes to dot
      .load = load_block<Elements8>,
      .panels = load_panel_block<Elements8>,
      .store = store_run<Elements8>,
      .pixels = nullptr,  // there are no images of pairs
  };
  return kernels;
}

}  // namespace

const GemmBf16Kernels& gemm_bf16_x86_avx512bf16() {
  static constexpr GemmBf16Kernels kernels{pair_kernels, 1, pair_rows, pair_rows, pair_panels};
  return kernels;
}

}  // namespace cpuaccel::kernels
