#include "kernels/float_vectors/exp_neon.h"
#include "kernels/rotary/impl.h"

namespace cpuaccel::kernels {

void rotary_arm64_neon(const RotaryRow& row) { rotary_row<ExpFloats4>(row); }

}  // namespace cpuaccel::kernels
