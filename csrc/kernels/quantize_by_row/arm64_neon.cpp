#include "kernels/float_vectors/exp_neon.h"
#include "kernels/quantize_by_row/impl.h"

namespace cpuaccel::kernels {

const QuantizeByRowKernels& quantize_by_row_arm64_neon() { return kQuantizeByRow<ExpFloats4>; }

}  // namespace cpuaccel::kernels
