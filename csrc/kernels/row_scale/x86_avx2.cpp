#include "kernels/floats/pairs_avx2.h"
#include "kernels/row_scale/impl.h"

namespace cpuaccel::kernels {

const RowScaleKernels& row_scale_x86_avx2() { return kRowScaleKernels<Pairs8>; }

}  // namespace cpuaccel::kernels
