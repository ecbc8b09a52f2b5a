#include "kernels/float_vectors/exp_avx2.h"
#include "kernels/layer_norm/impl.h"

namespace cpuaccel::kernels {

void layer_norm_x86_avx2(const LayerNormRow& row) { layer_norm_row<ExpFloats8>(row); }

}  // namespace cpuaccel::kernels
