#include "kernels/floats/pairs_avx512.h"
#include "kernels/row_scale/impl.h"

namespace cpuaccel::kernels {

const RowScaleKernels& row_scale_x86_avx512() { return kRowScaleKernels<Pairs16>; }

}  // namespace cpuaccel::kernels
