#include "kernels/channel_scale/impl.h"
#include "kernels/float_vectors/pairs_avx512.h"

namespace cpuaccel::kernels {

const ChannelScaleKernels& channel_scale_x86_avx512() { return kChannelScaleKernels<Pairs16>; }

}  // namespace cpuaccel::kernels
