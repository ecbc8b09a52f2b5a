#include "kernels/gemm/half_neon.h"
#include "kernels/qgemm/lines_of_8_neon.h"
#include "kernels/qgemm/multiply_tile_neon.h"
#include "kernels/qgemm/store_neon.h"

namespace cpuaccel::kernels {
namespace {

void rows(const QgemmLines& lines) { lines_of_8(lines, tile_width(lines.count)); }
void columns(const QgemmLines& lines) { lines_of_8(lines, kTileColumns); }
void store(const QgemmStore& results) { store_results<Bf16Elements>(results, kTileColumns); }

}  // namespace

const QgemmKernels& qgemm_arm64_neon() {
  static constexpr QgemmKernels kernels{kTileRows, kTileColumns,   8,    rows,
                                        columns,   multiply_tiles, store};
  return kernels;
}

}  // namespace cpuaccel::kernels
