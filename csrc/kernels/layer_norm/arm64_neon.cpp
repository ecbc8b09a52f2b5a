#include "kernels/floats/neon.h"
#include "kernels/layer_norm/impl.h"

namespace cpuaccel::kernels {

void layer_norm_arm64_neon(const LayerNormRow& row) { layer_norm_row<Floats4>(row); }

}  // namespace cpuaccel::kernels
