// Family avgpool: averages of u8 over windows of an image, channels last.
//
//   sum[c]   = sum over h < rows, w < columns of src[h*row_stride + w*column_stride + c]
//   steps[c] = (sum[c] - rows*columns*zero_point) / divisor
//   dst[c]   = clamp(round(steps[c] + zero_point), 0, 255)
//
// for one window and c < channels; src and dst have one quantiser, zero_point in [0, 255]. Exact:
// rows*columns and the magnitude of divisor, which is not 0, are below kAvgpoolLimit. Halves are
// rounded to even, see AvgpoolHalves.
// Bound: 1 byte read per element of the window.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Sums then stay below 2^23, and an average is further from a half than float rounds, or is one.
inline constexpr int64_t kAvgpoolLimit = 32768;

// Of a half, what is even: the byte, as torch's adaptive_avg_pool2d and mean have it, or its
// distance from zero_point, as its avg_pool2d has it.
enum class AvgpoolHalves { even_byte, even_steps };

// Division of a small window's sum by its divisor, in 16 bits:
//
//   rounded half up: ((sum + addend) * multiplier >> 16) >> shift
//
// Exact where 2 <= divisor <= 127 and the window has no more pixels than that; then 255 * divisor
// is the largest sum.
struct AvgpoolDivision {
  bool possible = false;
  bool halves = false;  // the divisor is even: a half may have to be rounded down
  int odd = 0;          // 1 if odd bytes are the even ones in AvgpoolHalves' sense
  uint16_t addend = 0, multiplier = 0, divisor = 0;
  int shift = 0;
};

struct AvgpoolWindow {
  AvgpoolWindow(int64_t window_rows, int64_t window_columns, int64_t divisor, int32_t zero_point,
                AvgpoolHalves halves);

  int64_t rows, columns;
  int64_t row_stride = 0, column_stride = 0;  // bytes
  // dst is (sum + shift) / divisor, rounded, + offset.
  int32_t shift, offset;
  int64_t divisor;
  // 1 / divisor in two parts, so that multiplying by them rounds as dividing does.
  float reciprocal, reciprocal_rest;
  AvgpoolDivision division;
};

using AvgpoolFunction = void(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst,
                             int64_t channels);

#if defined(__x86_64__)
#define CPUACCEL_AVGPOOL_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_AVGPOOL_KERNELS(row) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_AVGPOOL_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) AvgpoolFunction avgpool_##name;
CPUACCEL_AVGPOOL_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<AvgpoolFunction>> avgpool_kernels();

// Part of an image's height or width that a result averages.
struct AvgpoolRange {
  int64_t begin, end;  // inside of the image; none where end <= begin
  int64_t extent;      // the length that counts for the divisor
};

// src N x H x W x C, dst N x OH x OW x C, dense. A window without pixels gives zero_point.
struct AvgpoolCall {
  int64_t N = 0, H = 0, W = 0, C = 0, OH = 0, OW = 0;
  const AvgpoolRange* rows = nullptr;     // [OH]
  const AvgpoolRange* columns = nullptr;  // [OW]
  int64_t divisor = 0;                    // 0: the product of both extents
  int32_t zero_point = 0;
  AvgpoolHalves halves = AvgpoolHalves::even_byte;
};

// By the best usable row on all of torch's threads.
void avgpool_u8(const AvgpoolCall& call, const uint8_t* src, uint8_t* dst);

}  // namespace cpuaccel::kernels
