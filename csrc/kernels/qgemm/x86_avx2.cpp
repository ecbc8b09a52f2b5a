// vpmaddubsw would saturate sums of two products, so bytes are widened to 16 bits: those of rows
// when they are packed, those of weights when they are read, once for all rows of a tile.
#include "kernels/dot4/avx2.h"
#include "kernels/qgemm/dot_kernels_x86.h"

namespace cpuaccel::kernels {

const QgemmKernels& qgemm_x86_avx2() { return kDotKernels<Avx2Dot4, 4, 0, 2>; }

}  // namespace cpuaccel::kernels
