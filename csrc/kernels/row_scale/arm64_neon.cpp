#include "kernels/floats/pairs_neon.h"
#include "kernels/row_scale/impl.h"

namespace cpuaccel::kernels {

const RowScaleKernels& row_scale_arm64_neon() { return kRowScaleKernels<Pairs4>; }

}  // namespace cpuaccel::kernels
