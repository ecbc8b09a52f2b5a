#include "kernels/qgemm/bf16_i8mm.h"
#include "kernels/qgemm/lines_of_8_neon.h"
#include "kernels/qgemm/matrix_tile_neon.h"
#include "kernels/qgemm/store_neon.h"

namespace cpuaccel::kernels {
namespace {

void rows(const QgemmLines& lines) { lines_of_8(lines, (lines.count + 1) / 2 * 2); }
void columns(const QgemmLines& lines) { lines_of_8(lines, kTileColumns); }
void store(const QgemmStore& results) { store_results<Bf16Instruction>(results, kTileColumns); }

}  // namespace

const QgemmKernels& qgemm_arm64_i8mm() {
  static constexpr QgemmKernels kernels{kTileRows, kTileColumns, 8,    rows,
                                        columns,   matrix_tiles, store};
  return kernels;
}

}  // namespace cpuaccel::kernels
