#include "kernels/float_vectors/exp_avx2.h"
#include "kernels/rotary/impl.h"

namespace cpuaccel::kernels {

void rotary_x86_avx2(const RotaryRow& row) { rotary_row<ExpFloats8>(row); }

}  // namespace cpuaccel::kernels
