#include "kernels/float_vectors/exp_avx2.h"
#include "kernels/quantize_by_row/impl.h"

namespace cpuaccel::kernels {

const QuantizeByRowKernels& quantize_by_row_x86_avx2() { return kQuantizeByRow<ExpFloats8>; }

}  // namespace cpuaccel::kernels
