#include "kernels/gemm/dot.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/neon.h"
#include "kernels/gemm/pixels.h"
#include "kernels/gemm/rows.h"
#include "kernels/gemm/tile.h"

namespace cpuaccel::kernels {

const GemmKernels& gemm_arm64_neon() {
  using V = NeonFloats;
  static constexpr GemmKernels kernels{
      .mr = V::kRows,
      .nr = V::kVectors * V::kLanes,
      .tile = tiles<V>,
      .dot = dots<V>,
      .rows = rows_times<V>,
      .load = load_block<Elements4>,
      .panels = load_panel_block<Elements4>,
      .store = store_run<Elements4>,
      .pixels = pixels<V>,
  };
  return kernels;
}

}  // namespace cpuaccel::kernels
