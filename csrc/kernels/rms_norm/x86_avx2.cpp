#include "kernels/float_vectors/exp_avx2.h"
#include "kernels/rms_norm/impl.h"

namespace cpuaccel::kernels {

void rms_norm_x86_avx2(const RmsNormRow& row) { rms_norm_row<ExpFloats8>(row); }

}  // namespace cpuaccel::kernels
