// Family maxpool: max pooling of u8 images, channels last.
//
//   dst[n,oh,ow,c] = max over kh, kw of src[n, oh*SH - PH + kh*DH, ow*SW - PW + kw*DW, c]
//
// src N x H x W x C, dst N x OH x OW x C, both dense, without overlap. Only taps inside of the
// image count; a window without such taps gives 0. Strides and dilations are at least 1.
// Exact: a maximum has no rounding.
// Bound: a window is separable, so the rows are reduced first: KH loads for each byte of a source
// row, then KW loads for each byte of dst.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct MaxpoolShape {
  int64_t N = 0, H = 0, W = 0, C = 0, OH = 0, OW = 0;
  int64_t KH = 1, KW = 1, SH = 1, SW = 1, PH = 0, PW = 0, DH = 1, DW = 1;
};

// Computes row `oh` of the dst of one image. `scratch`: W * C bytes.
using MaxpoolFunction = void(const MaxpoolShape& shape, const uint8_t* image, int64_t oh,
                             uint8_t* dst_row, uint8_t* scratch);

#define CPUACCEL_KERNEL(name) MaxpoolFunction maxpool_##name;
#include "kernels/maxpool/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<MaxpoolFunction>> maxpool_kernels();

// Runs the best usable row on all of torch's threads.
CPUACCEL_API void maxpool_u8(const MaxpoolShape& shape, const uint8_t* src, uint8_t* dst);

}  // namespace cpuaccel::kernels
