#include "kernels/column_affine/impl.h"
#include "kernels/floats/pairs_neon.h"

namespace cpuaccel::kernels {

const ColumnAffineKernels& column_affine_arm64_neon() { return kColumnAffineKernels<Pairs4>; }

}  // namespace cpuaccel::kernels
