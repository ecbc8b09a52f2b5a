// Family conv_f32: convolution of floats as a product of matrices, by family gemm.
//
//   dst[n,oc,oh,ow] = bias[oc] + sum over c, kh, kw of
//       src[n, g*C/groups + c, oh*SH - PH + kh*DH, ow*SW - PW + kw*DW] * weights[oc,c,kh,kw]
//
// with g = oc / (OC/groups). Channels first, weights are the left matrix, as they are, and the
// right one is the unfolded image, which is never whole in memory: gemm asks for blocks of it.
// Channels last, rows of the unfolded image are the left matrix, and weights (OC x KH x KW x
// C/groups) the right one. Padding counts as zeros that are multiplied: an infinite weight makes
// NaNs of it.
//
// Error: that of gemm for K = C/groups*KH*KW.
// Bound: 2*N*OC*OH*OW*K floating-point operations.
#pragma once

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

// On all of torch's threads, by one row of gemm or the best usable one.
void conv_f32(const ConvF32Call& call, GemmFunction* row);
void conv_f32(const ConvF32Call& call);

}  // namespace cpuaccel::kernels
