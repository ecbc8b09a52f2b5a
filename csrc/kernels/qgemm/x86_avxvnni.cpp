#include "kernels/dot4/avxvnni.h"
#include "kernels/qgemm/dot_kernels_x86.h"

namespace cpuaccel::kernels {

const QgemmKernels& qgemm_x86_avxvnni() { return kDotKernels<AvxVnniDot4, 4, 128, 1>; }

}  // namespace cpuaccel::kernels
