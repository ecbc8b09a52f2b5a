// vpmaddubsw would saturate sums of two products, so bytes are widened to 16 bits: those of rows
// when they are packed, those of weights when they are read, once for all rows of a tile.
#include "kernels/dot4/avx2.h"
#include "kernels/qgemm/dot_tile_x86.h"
#include "kernels/qgemm/kernels.h"
#include "kernels/qgemm/store_x86.h"

namespace cpuaccel::kernels {
namespace {

using Dot = Avx2Dot4;
constexpr int kTileRows = 4;

}  // namespace

const QgemmKernels& qgemm_x86_avx2() {
  static constexpr QgemmKernels kernels{.mr = kTileRows,
                                        .nr = kPanelColumns<Dot>,
                                        .run = 4,
                                        .rows = pack_rows<Dot>,
                                        .columns = pack_columns<Dot>,
                                        .tile = dot_tiles<Dot, kTileRows>,
                                        .store = store_results<Dot>,
                                        .row_offset = 0,
                                        .row_element = 2};
  return kernels;
}

}  // namespace cpuaccel::kernels
