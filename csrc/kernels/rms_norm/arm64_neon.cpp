#include "kernels/float_vectors/exp_neon.h"
#include "kernels/rms_norm/impl.h"

namespace cpuaccel::kernels {

void rms_norm_arm64_neon(const RmsNormRow& row) { rms_norm_row<ExpFloats4>(row); }

}  // namespace cpuaccel::kernels
