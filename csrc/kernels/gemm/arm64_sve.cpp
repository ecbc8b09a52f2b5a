#include "kernels/gemm/dot.h"
#include "kernels/gemm/dot_sve.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/neon.h"
#include "kernels/gemm/pixels.h"
#include "kernels/gemm/pixels_sve.h"
#include "kernels/gemm/rows.h"
#include "kernels/gemm/rows_sve.h"
#include "kernels/gemm/tile_sve.h"

namespace cpuaccel::kernels {

const GemmKernels& gemm_arm64_sve() {
  // 128-bit vectors are NEON's, whose loops, except for the tile's, take fewer instructions.
  const bool longer = SveFloats::lanes() > NeonFloats::kLanes;
  static const GemmKernels kernels{
      .mr = SveFloats::kRows,
      .nr = SveFloats::kVectors * SveFloats::lanes(),
      .dot_rows = DotTiles6x4::kRows,
      .dot_most = DotTiles6x4::kMost,
      .tile = sve_tiles,
      .dot = longer ? sve_dots<SveMultiplyAdd> : dots<NeonFloats>,
      .rows = longer ? sve_rows : rows_times<NeonFloats>,
      .load = load_block<Elements4>,
      .panels = load_panel_block<Elements4>,
      .store = store_run<Elements4>,
      .pixels = longer ? sve_pixels : pixels<NeonFloats>,
  };
  return kernels;
}

}  // namespace cpuaccel::kernels
