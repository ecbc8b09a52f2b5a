#include "kernels/float_vectors/pairs_neon.h"
#include "kernels/winograd/impl.h"

namespace cpuaccel::kernels {

const WinogradKernels& winograd_arm64_neon() { return kWinogradKernels<Pairs4>; }

}  // namespace cpuaccel::kernels
