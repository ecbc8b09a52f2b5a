#include "kernels/float_vectors/exp_avx512.h"
#include "kernels/quantize_by_row/impl.h"

namespace cpuaccel::kernels {

const QuantizeByRowKernels& quantize_by_row_x86_avx512() { return kQuantizeByRow<ExpFloats16>; }

}  // namespace cpuaccel::kernels
