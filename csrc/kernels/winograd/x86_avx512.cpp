#include "kernels/float_vectors/pairs_avx512.h"
#include "kernels/winograd/impl.h"

namespace cpuaccel::kernels {

const WinogradKernels& winograd_x86_avx512() { return kWinogradKernels<Pairs16>; }

}  // namespace cpuaccel::kernels
