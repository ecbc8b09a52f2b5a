#include "kernels/gemm/avx2.h"
#include "kernels/gemm/dot.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/pixels.h"
#include "kernels/gemm/rows.h"
#include "kernels/gemm/tile.h"

namespace cpuaccel::kernels {

const GemmKernels& gemm_x86_avx2() {
  using V = Avx2Floats;
  static constexpr GemmKernels kernels{
      .mr = V::kRows,
      .nr = V::kVectors * V::kLanes,
      .tile = tiles<V>,
      .dot = dots<V>,
      .rows = rows_times<V>,
      .load = load_block<Elements8>,
      .panels = load_panel_block<Elements8>,
      .store = store_run<Elements8>,
      .pixels = pixels<V>,
  };
  return kernels;
}

}  // namespace cpuaccel::kernels
