#include "kernels/gemm/half_neon.h"
#include "kernels/qgemm/dot_tile_neon.h"
#include "kernels/qgemm/lines_of_4_neon.h"
#include "kernels/qgemm/store_neon.h"

namespace cpuaccel::kernels {
namespace {

void rows(const QgemmLines& lines) {
  lines.count <= 2 ? few_lines_of_4(lines) : lines_of_4(lines, tile_width(lines.count));
}
void columns(const QgemmLines& lines) { lines_of_4(lines, kTileColumns); }
void store(const QgemmStore& results) { store_results<Bf16Elements>(results, kTileColumns); }

}  // namespace

const QgemmKernels& qgemm_arm64_dotprod() {
  static constexpr QgemmKernels kernels{kTileRows, kTileColumns, 4,    rows,
                                        columns,   dot_tiles,    store};
  return kernels;
}

}  // namespace cpuaccel::kernels
