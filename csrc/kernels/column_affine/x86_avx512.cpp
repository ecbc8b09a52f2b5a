#include "kernels/column_affine/impl.h"
#include "kernels/floats/pairs_avx512.h"

namespace cpuaccel::kernels {

const ColumnAffineKernels& column_affine_x86_avx512() { return kColumnAffineKernels<Pairs16>; }

}  // namespace cpuaccel::kernels
