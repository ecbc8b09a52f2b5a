#include "kernels/gemm/avx2.h"
#include "kernels/gemm/dot.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/rows.h"
#include "kernels/gemm/tile.h"

namespace cpuaccel::kernels {

const GemmKernels& gemm_x86_avx2() {
  using V = Avx2Floats;
  static constexpr GemmKernels kernels{V::kRows,      2 * V::kLanes, tiles<V>, dots<V>,
                                       rows_times<V>, load_block,    store_run};
  return kernels;
}

}  // namespace cpuaccel::kernels
