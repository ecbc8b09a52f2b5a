// Family dwconv_f32: f32 depthwise convolution, channels first or last.
//
//   dst[n,c,oh,ow] = bias[c] + sum over kh, kw of
//       src[n, c / (OC / C), oh*SH - PH + kh*DH, ow*SW - PW + kw*DW] * weights[c,kh,kw]
//
// for groups = C, with OC a multiple of C (channels last: OC = C). Padding may be multiplied, so
// that an infinite weight gives NaNs there, or skipped: this is not specified.
// Error: at most KH*KW + 1 roundings, each of half a unit in the last place of the sum of
// |products|, because sums start at the bias and each product is fused with its sum.
// Bound: N*OC*OH*OW*KH*KW multiply-adds, and src, weights and dst moved once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/conv2d_shape.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct DwconvF32Call {
  Conv2dShape shape;
  ImageLayout layout = ImageLayout::channels_first;
  const float* src = nullptr;
  const float* weights = nullptr;  // OC x KH x KW; channels last: KH x KW x OC
  const float* bias = nullptr;     // OC, or null: zeros
  float* dst = nullptr;
};

// A unit of work is a plane (image and channel) of dst, or with channels last a row of an image.
int64_t dwconv_f32_units(const DwconvF32Call& call);

// Channels first: the rows of dst that are computed from one padded copy of rows of src, and the
// layout of that copy. A row of the copy is SW phases one after another: phase p holds the padded
// columns p, p + SW, p + 2*SW ..., so that the taps of successive results are successive floats.
struct DwconvF32Strip {
  int64_t rows = 0;      // of dst
  int64_t src_rows = 0;  // that these rows of dst see
  int64_t phase = 0;     // floats from one phase to the next
  int64_t pitch = 0;     // floats from one row to the next
};
DwconvF32Strip dwconv_f32_strip(const Conv2dShape& shape);
inline constexpr int64_t kDwconvF32Vector = 16;  // floats; the widest vector of all rows

// Computes units [begin, end). padded: scratch memory of strip.src_rows * strip.pitch floats.
using DwconvF32Function = void(const DwconvF32Call& call, const DwconvF32Strip& strip,
                               int64_t begin, int64_t end, float* padded);

#define CPUACCEL_KERNEL(name) DwconvF32Function dwconv_f32_##name;
#include "kernels/dwconv_f32/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<DwconvF32Function>> dwconv_f32_kernels();

// Uses the given row, on all of torch's threads.
CPUACCEL_API void dwconv_f32(const DwconvF32Call& call, DwconvF32Function* function);
// Uses the best usable row.
CPUACCEL_API void dwconv_f32(const DwconvF32Call& call);

}  // namespace cpuaccel::kernels
