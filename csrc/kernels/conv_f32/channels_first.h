// Weights as they are times the unfolded image.
#pragma once

#include "kernels/conv_f32/conv_f32.h"
#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {

void conv_channels_first(const ConvF32Call& call, const GemmKernels& kernels);

}  // namespace cpuaccel::kernels
