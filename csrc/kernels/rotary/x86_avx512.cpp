#include "kernels/float_vectors/exp_avx512.h"
#include "kernels/rotary/impl.h"

namespace cpuaccel::kernels {

void rotary_x86_avx512(const RotaryRow& row) { rotary_row<ExpFloats16>(row); }

}  // namespace cpuaccel::kernels
