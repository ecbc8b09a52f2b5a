#include "kernels/channel_scale/impl.h"
#include "kernels/float_vectors/pairs_neon.h"

namespace cpuaccel::kernels {

const ChannelScaleKernels& channel_scale_arm64_neon() { return kChannelScaleKernels<Pairs4>; }

}  // namespace cpuaccel::kernels
