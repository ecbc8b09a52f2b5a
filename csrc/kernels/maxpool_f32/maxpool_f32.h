// Family maxpool_f32: max pooling of f32 images, channels first, with the indices of the maxima.
//
//   dst[p,oh,ow]     = max over kh, kw of src[p, oh*SH - PH + kh*DH, ow*SW - PW + kw*DW]
//   indices[p,oh,ow] = ih * W + iw of the first maximum, or of the last NaN if there are NaNs
//
// src P x H x W, dst and indices P x OH x OW, all dense; P is the number of planes. Only taps
// inside of the image count, and each window has at least one: (OH - 1) * SH < H + PH, PH <= KH /
// 2, and the same for widths.
// Exact: a maximum has no rounding.
// Bound: 4 bytes read, and 12 written for each result.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct MaxpoolF32Shape {
  int64_t planes = 0, H = 0, W = 0, OH = 0, OW = 0;
  int64_t KH = 1, KW = 1, SH = 1, SW = 1, PH = 0, PW = 0, DH = 1, DW = 1;
};

// Computes one plane. H * W is below 2^31.
using MaxpoolF32Function = void(const MaxpoolF32Shape& shape, const float* src, float* dst,
                                int64_t* indices);

#define CPUACCEL_KERNEL(name) MaxpoolF32Function maxpool_f32_##name;
#include "kernels/maxpool_f32/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<MaxpoolF32Function>> maxpool_f32_kernels();

// Computes all planes by the best usable row on all of torch's threads.
CPUACCEL_API void maxpool_f32(const MaxpoolF32Shape& shape, const float* src, float* dst,
                              int64_t* indices);

}  // namespace cpuaccel::kernels
