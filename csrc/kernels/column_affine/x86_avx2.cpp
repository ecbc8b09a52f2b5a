#include "kernels/column_affine/impl.h"
#include "kernels/floats/pairs_avx2.h"

namespace cpuaccel::kernels {

const ColumnAffineKernels& column_affine_x86_avx2() { return kColumnAffineKernels<Pairs8>; }

}  // namespace cpuaccel::kernels
