#include "kernels/qgemm/bf16_i8mm.h"
#include "kernels/qgemm/lines_of_8_neon.h"
#include "kernels/qgemm/matrix_tile_sve.h"
#include "kernels/qgemm/store_neon.h"

namespace cpuaccel::kernels {
namespace {

void rows(const QgemmLines& lines) { lines_of_8(lines, (lines.count + 1) / 2 * 2); }
void columns(const QgemmLines& lines) { lines_of_8(lines, tile_columns()); }
void store(const QgemmStore& results) { store_results<Bf16Instruction>(results, tile_columns()); }

}  // namespace

const QgemmKernels& qgemm_arm64_sve() {
  static const QgemmKernels kernels{kTileRows, tile_columns(), 8,    rows,
                                    columns,   matrix_tiles,   store};
  return kernels;
}

}  // namespace cpuaccel::kernels
