#include "kernels/gemm/dot.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/neon.h"
#include "kernels/gemm/pixels.h"
#include "kernels/gemm/pixels_sve.h"
#include "kernels/gemm/rows.h"
#include "kernels/gemm/tile_sve.h"

namespace cpuaccel::kernels {

const GemmKernels& gemm_arm64_sve() {
  static const GemmKernels kernels{
      .mr = SveFloats::kRows,
      .nr = SveFloats::kVectors * SveFloats::lanes(),
      .dot_rows = NeonFloats::DotTiles::kRows,
      .dot_most = NeonFloats::DotTiles::kMost,
      .tile = sve_tiles,
      .dot = dots<NeonFloats>,
      .rows = rows_times<NeonFloats>,
      .load = load_block<Elements4>,
      .panels = load_panel_block<Elements4>,
      .store = store_run<Elements4>,
      .pixels = SveFloats::lanes() == NeonFloats::kLanes ? pixels<NeonFloats> : sve_pixels,
  };
  return kernels;
}

}  // namespace cpuaccel::kernels
