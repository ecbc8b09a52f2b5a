#include "kernels/dot4/avx512vnni.h"
#include "kernels/qgemm/dot_tile_x86.h"
#include "kernels/qgemm/kernels.h"
#include "kernels/qgemm/store_x86.h"

namespace cpuaccel::kernels {
namespace {

using Dot = Avx512VnniDot4;
constexpr int kTileRows = 8;

}  // namespace

const QgemmKernels& qgemm_x86_avx512vnni() {
  static constexpr QgemmKernels kernels{.mr = kTileRows,
                                        .nr = kPanelColumns<Dot>,
                                        .run = 4,
                                        .rows = pack_rows<Dot>,
                                        .columns = pack_columns<Dot>,
                                        .tile = dot_tiles<Dot, kTileRows>,
                                        .store = store_results<Dot>,
                                        .row_offset = 128,
                                        .row_element = 1};
  return kernels;
}

}  // namespace cpuaccel::kernels
