#include "kernels/channel_scale/impl.h"
#include "kernels/float_vectors/pairs_avx2.h"

namespace cpuaccel::kernels {

const ChannelScaleKernels& channel_scale_x86_avx2() { return kChannelScaleKernels<Pairs8>; }

}  // namespace cpuaccel::kernels
