#include "kernels/dot4/avx512vnni.h"
#include "kernels/qgemm/dot_kernels_x86.h"

namespace cpuaccel::kernels {

const QgemmKernels& qgemm_x86_avx512vnni() { return kDotKernels<Avx512VnniDot4, 8, 128, 1>; }

}  // namespace cpuaccel::kernels
