#include "kernels/float_vectors/exp_neon.h"
#include "kernels/layer_norm/impl.h"

namespace cpuaccel::kernels {

void layer_norm_arm64_neon(const LayerNormRow& row) { layer_norm_row<ExpFloats4>(row); }

}  // namespace cpuaccel::kernels
