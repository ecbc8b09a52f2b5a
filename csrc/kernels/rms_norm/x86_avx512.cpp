#include "kernels/float_vectors/exp_avx512.h"
#include "kernels/rms_norm/impl.h"

namespace cpuaccel::kernels {

void rms_norm_x86_avx512(const RmsNormRow& row) { rms_norm_row<ExpFloats16>(row); }

}  // namespace cpuaccel::kernels
