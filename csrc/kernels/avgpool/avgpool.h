// Family avgpool: average pooling of u8 images, channels last.
//
//   sum[c]   = sum over h < rows, w < columns of src[h*row_stride + w*column_stride + c]
//   steps[c] = (sum[c] - rows*columns*zero_point) / divisor
//   dst[c]   = clamp(round(steps[c] + zero_point), 0, 255)
//
// for one window and c < channels. src and dst have the same scale and zero_point in [0, 255].
// Exact: rows*columns and |divisor| are below kAvgpoolLimit; divisor is not 0. Halves are rounded
// to even, see AvgpoolHalves.
// Bound: 1 byte read per element of the window.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Keeps sums below 2^23. An average is then exactly a half, or further from one than float's
// rounding error.
inline constexpr int64_t kAvgpoolLimit = 32768;

// What is even after a half is rounded: the byte, or its distance from zero_point.
enum class AvgpoolHalves { even_byte, even_steps };
// As torch's adaptive_avg_pool2d and mean round, see zero_point.h. avg_pool2d has even steps in
// every version.
CPUACCEL_API AvgpoolHalves halves_of_means();

// Division of a small window's sum by its divisor, in 16 bits:
//
//   rounded half up: ((sum + addend) * multiplier >> 16) >> shift
//
// Exact if 2 <= divisor <= 127 and the window has at most divisor pixels; the largest sum is then
// 255 * divisor.
struct AvgpoolDivision {
  bool possible = false;
  bool halves = false;  // the divisor is even: a half may have to be rounded down
  int odd = 0;          // 1 if AvgpoolHalves treats odd bytes as even
  uint16_t addend = 0, multiplier = 0, divisor = 0;
  int shift = 0;
};

struct AvgpoolWindow {
  AvgpoolWindow(int64_t window_rows, int64_t window_columns, int64_t divisor, int32_t zero_point,
                AvgpoolHalves halves);

  int64_t rows, columns;
  int64_t row_stride = 0, column_stride = 0;  // bytes
  // dst = round((sum + shift) / divisor) + offset.
  int32_t shift, offset;
  int64_t divisor;
  // 1 / divisor in two parts, so that multiplying by them rounds as dividing does.
  float reciprocal, reciprocal_rest;
  AvgpoolDivision division;
};

using AvgpoolFunction = void(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst,
                             int64_t channels);

#define CPUACCEL_KERNEL(name) AvgpoolFunction avgpool_##name;
#include "kernels/avgpool/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<AvgpoolFunction>> avgpool_kernels();

// The part of an image's height or width that one result averages.
struct AvgpoolRange {
  int64_t begin, end;  // inside of the image; empty if end <= begin
  int64_t extent;      // length that counts for the divisor
};

// src is N x H x W x C, dst N x OH x OW x C, both dense. An empty window gives zero_point.
struct AvgpoolCall {
  int64_t N = 0, H = 0, W = 0, C = 0, OH = 0, OW = 0;
  const AvgpoolRange* rows = nullptr;     // [OH]
  const AvgpoolRange* columns = nullptr;  // [OW]
  int64_t divisor = 0;                    // 0: the product of both extents
  int32_t zero_point = 0;
  AvgpoolHalves halves = AvgpoolHalves::even_byte;
};

// Uses the best usable row and all of torch's threads.
CPUACCEL_API void avgpool_u8(const AvgpoolCall& call, const uint8_t* src, uint8_t* dst);

}  // namespace cpuaccel::kernels
