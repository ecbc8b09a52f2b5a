// Family conv_f32: f32 convolution as a matrix product, by the kernels of family gemm.
//
//   dst[n,oc,oh,ow] = bias[oc] + sum over c, kh, kw of
//       src[n, g*C/groups + c, oh*SH - PH + kh*DH, ow*SW - PW + kw*DW] * weights[oc,c,kh,kw]
//
// with g = oc / (OC/groups). Output pixels are the rows of the left matrix: the elements that a
// pixel sees are read in place, or from a copy of some image rows with their padding. The weights
// are the right matrix, in panels. Padding is multiplied as zeros, so that an infinite weight gives
// NaNs there.
//
// Error: that of gemm for K = C/groups*KH*KW.
// Bound: 2*N*OC*OH*OW*K floating-point operations.
#pragma once

#include "base/api.h"
#include "kernels/conv2d_shape.h"
#include "kernels/gemm/gemm.h"

namespace cpuaccel::kernels {

struct ConvF32Call {
  Conv2dShape shape;
  ImageLayout layout = ImageLayout::channels_first;
  const float* src = nullptr;
  const float* weights = nullptr;  // in the order of `layout`
  const float* bias = nullptr;     // OC, or null: zeros
  float* dst = nullptr;
};

// Whether offsets within the elements that a pixel sees fit the kernel's 32 bits.
CPUACCEL_API bool conv_f32_takes(const Conv2dShape& shape);

// Uses the given row of gemm or the best usable one, and all of torch's threads.
CPUACCEL_API void conv_f32(const ConvF32Call& call, GemmFunction* row);
CPUACCEL_API void conv_f32(const ConvF32Call& call);

}  // namespace cpuaccel::kernels
