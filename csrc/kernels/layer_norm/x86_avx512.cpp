#include "kernels/float_vectors/exp_avx512.h"
#include "kernels/layer_norm/impl.h"

namespace cpuaccel::kernels {

void layer_norm_x86_avx512(const LayerNormRow& row) { layer_norm_row<ExpFloats16>(row); }

}  // namespace cpuaccel::kernels
