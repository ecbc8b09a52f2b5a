#include "kernels/qgemm_wq/products_avx512.h"
#include "kernels/qgemm_wq/products_vnni.h"
#include "kernels/qgemm_wq/tile_x86.h"

namespace cpuaccel::kernels {
namespace {

struct Dot : Products16 {
  CPUACCEL_INLINE static Int dot(Int sums, Int codes, Int bytes) {
    return _mm512_dpbusd_epi32(sums, codes, bytes);
  }
};

}  // namespace

const QgemmWqKernels& qgemm_wq_x86_avx512vnni() {
  static constexpr QgemmWqKernels kernels{tile<VnniProducts<Dot, 8>>};
  return kernels;
}

}  // namespace cpuaccel::kernels
