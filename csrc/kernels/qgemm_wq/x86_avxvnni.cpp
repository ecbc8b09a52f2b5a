#include "kernels/qgemm_wq/products_avx2.h"
#include "kernels/qgemm_wq/products_vnni.h"
#include "kernels/qgemm_wq/tile_x86.h"

namespace cpuaccel::kernels {
namespace {

struct Dot : Products8 {
  CPUACCEL_INLINE static Int dot(Int sums, Int codes, Int bytes) {
    return _mm256_dpbusd_avx_epi32(sums, codes, bytes);
  }
};

}  // namespace

const QgemmWqKernels& qgemm_wq_x86_avxvnni() {
  static constexpr QgemmWqKernels kernels{tile<VnniProducts<Dot, 4>>};
  return kernels;
}

}  // namespace cpuaccel::kernels
