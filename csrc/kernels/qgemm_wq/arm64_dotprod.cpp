#include "kernels/qgemm_wq/dot_rows_neon.h"
#include "kernels/qgemm_wq/sdot.h"

namespace cpuaccel::kernels {

const QgemmWqKernels& qgemm_wq_arm64_dotprod() {
  static constexpr QgemmWqKernels kernels{dot_tiles<Sdot>};
  return kernels;
}

}  // namespace cpuaccel::kernels
