// Family quantize_by_row: quantizes floats to int8 with a scale and a zero point for each row, or
// for all rows, which are chosen from the values or given. Formulas and roundings are torchao's
// (choose_qparams_affine and quantize_affine in torchao/quantization/quant_primitives.py).
//
//   dst[m,k] = clamp(round_half_to_even(src[m,k] * (1 / scale[m])) + zero_point[m], low, high)
//
// With least = min(0, min over the row's k) and most = max(0, max over k), and T() rounding to the
// type of src:
//   symmetric:   scale = max(T(max(-least, most) / ((high - low) / 2)), smallest_scale)
//                zero_point = 0
//   asymmetric:  scale = max(T(T(most - least) / (high - low)), smallest_scale)
//                zero_point = clamp(low - round_half_to_even(T(least / scale)), low, high)
// smallest_scale is torchao's 2^-23, or another. If most - least exceeds T, where torchao's scale
// is infinite, each of the two is divided. With one scale for all rows, least and most are those of
// all rows. All other arithmetic is f32.
//
// A row with a NaN, and a row with an infinity if its scale is chosen, gets the scale NaN and
// zeros: its products are NaN. With one scale for all rows, all rows get it.
//
// Bound: 4 bytes (f32) or 2 read per element, twice from a cache, and 1 written.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "base/data_type.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// least and most of a row.
struct RowRange {
  float least = 0.0f, most = 0.0f;
  bool finite = true;  // no NaN and no infinity in the row
};

struct RowQuantizer {
  float inverse_scale, zero_point, low, high;
};

struct QuantizeByRowKernels {
  RowRange (*range)(const void* src, DataType type, int64_t K);
  void (*quantize)(const void* src, DataType type, int8_t* dst, int64_t K,
                   const RowQuantizer& quantizer);
};
using QuantizeByRowFunction = const QuantizeByRowKernels&();

#define CPUACCEL_KERNEL(name) QuantizeByRowFunction quantize_by_row_##name;
#include "kernels/quantize_by_row/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<QuantizeByRowFunction>> quantize_by_row_kernels();

enum class RowScales : uint8_t { of_each_row, of_all_rows, given };

struct QuantizeByRow {
  const void* src = nullptr;
  DataType type = DataType::f32;  // f32, bf16 or f16
  int64_t M = 0, K = 0;
  int64_t row_stride = 0;  // in elements
  RowScales mode = RowScales::of_each_row;
  bool symmetric = true;
  int32_t low = -128, high = 127;
  float smallest_scale = 0x1p-23f;  // at least 2^-126, so that 1 / scale is finite
  // Only for `given`: one, or M. Null zero points are zeros.
  const float* given_scales = nullptr;
  const int32_t* given_zero_points = nullptr;
  int64_t given = 0;
  int8_t* dst = nullptr;  // M x K, dense
  // Results, M of each.
  float* scales = nullptr;
  int32_t* zero_points = nullptr;
};

// Runs the best usable row, or `row`, on all of torch's threads.
CPUACCEL_API void quantize_by_row(const QuantizeByRow& call);
CPUACCEL_API void quantize_by_row(const QuantizeByRow& call, QuantizeByRowFunction* row);

}  // namespace cpuaccel::kernels
