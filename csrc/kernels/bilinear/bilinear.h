// Family bilinear: bilinear resizing of u8 images, channels last.
//
//   between[w,c] = row.first_weight * first[w,c] + row.second_weight * second[w,c] - odd
//   value[ow,c]  = t.first_weight * between[t.first,c] + t.second_weight * between[t.second,c]
//   dst[ow,c]    = clamp(round_half_to_even(value[ow,c]) + odd, 0, 255)
//
// for one row of dst, where first and second are rows of an image, W x C, and t = columns[ow].
// odd is 0 or 1: with 1, halves go to odd bytes, as if an odd zero point were added after rounding.
// Weights are in [0, 1]. Arithmetic is float; each sum is a product and one fma, so that every row
// of the kernel list gives the same bytes. Exact if the products of weights and bytes are, as they
// are if the size doubles.
// Bound: 2 bytes read per element of a source row, 1 written per element of dst.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// The two pixels (or rows) between which a result is interpolated.
struct BilinearTap {
  int64_t first, second;
  float first_weight, second_weight;
};

struct BilinearCall {
  int64_t N = 0, H = 0, W = 0, C = 0, OH = 0, OW = 0;
  const BilinearTap* rows = nullptr;     // [OH]
  const BilinearTap* columns = nullptr;  // [OW]
  int32_t odd = 0;
};

// Computes row `oh` of one image's result. `between` has room for W * C floats.
using BilinearFunction = void(const BilinearCall& call, const uint8_t* image, int64_t oh,
                              uint8_t* dst_row, float* between);

#define CPUACCEL_KERNEL(name) BilinearFunction bilinear_##name;
#include "kernels/bilinear/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<BilinearFunction>> bilinear_kernels();

// Resizes all images, with the best usable row and all of torch's threads.
CPUACCEL_API void bilinear_u8(const BilinearCall& call, const uint8_t* src, uint8_t* dst);

}  // namespace cpuaccel::kernels
