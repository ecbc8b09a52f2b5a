#include "kernels/float_vectors/pairs_avx2.h"
#include "kernels/winograd/impl.h"

namespace cpuaccel::kernels {

const WinogradKernels& winograd_x86_avx2() { return kWinogradKernels<Pairs8>; }

}  // namespace cpuaccel::kernels
