#include "kernels/gemm/avx2.h"
#include "kernels/gemm/dot.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/half_avx2.h"
#include "kernels/gemm/tile.h"

namespace cpuaccel::kernels {

const GemmKernels& gemm_x86_avx2() {
  static constexpr GemmKernels kernels{
      Avx2Floats::kRows, 2 * Avx2Floats::kLanes, tiles<Avx2Floats>, dots<Avx2Floats>,
      load_block,        store_run};
  return kernels;
}

}  // namespace cpuaccel::kernels
