// Family binary: addition or multiplication of two quantized uint8 tensors with different scales
// and zero points.
//
//   real[i] = (a[i] - zero_point_a) * scale_a  op  (b[i] - zero_point_b) * scale_b
//   dst[i]  = clamp(round_half_to_even(real[i] / scale) + zero_point, relu ? zero_point : 0, 255)
//
// The float32 operations are those of torch's vectorized kernels, bit for bit:
//
//   add: real = fma(scale_a, a, -(scale_a * zero_point_a)) + the same of b, times 1 / scale
//   mul: exact product of integers, times (scale_a * scale_b * (1 / scale))
//
// Scales are positive, zero points in [0, 255], and |real / scale| below 2^31: `in_range` checks
// it. dst may be a or b; other overlap is not allowed.
// Bound: 2 bytes read and 1 written per element; about one float operation per byte.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct BinaryQuantizers {
  float scale_a;
  float scale_b;
  float scale;  // of the result
  int32_t zero_point_a;
  int32_t zero_point_b;
  int32_t zero_point;
  bool relu;
};

using BinaryFunction = void(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                            const BinaryQuantizers& q);

#define CPUACCEL_KERNEL(name) BinaryFunction add_##name, mul_##name;
#include "kernels/binary/kernels.inc"
#undef CPUACCEL_KERNEL

enum class BinaryOp : int { add, mul };

std::span<const KernelRow<BinaryFunction>> binary_kernels(BinaryOp op);

// True if the scales are positive and no result overflows int32 before it is clamped to 8 bits.
CPUACCEL_API bool in_range(BinaryOp op, const BinaryQuantizers& q);

// These use the best usable row and all of torch's threads.
//
// Same shape: a, b and dst have `count` elements.
CPUACCEL_API void binary_u8(BinaryOp op, const uint8_t* a, const uint8_t* b, uint8_t* dst,
                            int64_t count, const BinaryQuantizers& q);

// dst[image][row][c] = a[image][row][c] op b[image][c]: a channels-last image and one value for
// each of its channels, as in squeeze-and-excite.
struct BinaryRows {
  int64_t images;
  int64_t rows;  // of one image: height times width
  int64_t columns;
};
CPUACCEL_API void binary_rows_u8(BinaryOp op, const uint8_t* a, const uint8_t* b, uint8_t* dst,
                                 const BinaryRows& shape, const BinaryQuantizers& q);

// dst[i] = a[i] op b, with one value b for all elements.
CPUACCEL_API void binary_value_u8(BinaryOp op, const uint8_t* a, uint8_t b, uint8_t* dst,
                                  int64_t count, const BinaryQuantizers& q);

// The quantizers for operands in the other order.
BinaryQuantizers swapped(const BinaryQuantizers& q);

}  // namespace cpuaccel::kernels
