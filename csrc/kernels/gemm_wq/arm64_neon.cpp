#include <array>

#include "kernels/gemm_wq/tile_neon.h"
#include "kernels/gemm_wq/unpack_neon.h"

namespace cpuaccel::kernels {

const GemmWqKernels& gemm_wq_arm64_neon() {
  static constexpr std::array<float, 4> kPlaces{1.0f, 1.0f, 1.0f, 1.0f};
  static constexpr GemmWqKernels kernels{kPlaces, kPlaces, tile, unpack};
  return kernels;
}

}  // namespace cpuaccel::kernels
