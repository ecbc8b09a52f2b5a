// Family qgemm: quantized matrix product of a source by packed weights.
//
//   acc[m,n]  = sum over k of (src[m,k] - src_zero_point[m]) * weights[k,n]
//   real[m,n] = activation(fma(float(acc[m,n]) * src_scale[m], scales[n], bias[n]))
//   s32:  acc, modulo 2^32
//   f32:  real
//   bf16: real, rounded to nearest even
//   u8:   clamp(round_half_to_even(real * inverse_scale) + zero_point, min, max)
//   s8:   the same by way of u8: zero_point, min and max are those of the result plus 128
//
// src M x K, weights K x N, dst M x N. If src_scale is 1, which is exact, u8, s8 and f32 give the
// same numbers as qconv (conv_dst.h). A real that is NaN becomes min.
//
// acc is exact in int32 as long as 255 times each column's sum of |weights| fits, as it always does
// up to K = 65,793. Beyond that only s32 is computed: qgemm_unsupported_reason() returns the
// reason, and qgemm() does nothing.
//
// Bound: M * N * K multiply-adds at the rate of the instruction; up to about 16 rows, reading the
// weights once.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "base/scratch.h"
#include "kernels/conv_dst.h"
#include "kernels/kernel_list.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {

struct QgemmKernels;  // kernels/qgemm/kernels.h
using QgemmFunction = const QgemmKernels&();

#define CPUACCEL_KERNEL(name) QgemmFunction qgemm_##name;
#include "kernels/qgemm/kernels.inc"
#undef CPUACCEL_KERNEL

CPUACCEL_API std::span<const KernelRow<QgemmFunction>> qgemm_kernels();

// Unpacked weights. Element (k, n) is at data[k * k_stride + n * n_stride].
struct QgemmPlain {
  const int8_t* data = nullptr;
  int64_t K = 0, N = 0;
  int64_t k_stride = 0, n_stride = 0;
};

// Packed weights. Layout of the values: panel of nr columns, run of k, column, `run` bytes of
// successive k; zero for k past K. Only the row that packed them can multiply them.
struct QgemmWeights {
  QgemmFunction* row = nullptr;
  int64_t nr = 0, run = 0;  // of the row
  int64_t K = 0, N = 0;
  const int8_t* values = nullptr;
  const int32_t* column_sums = nullptr;  // of whole panels
  int64_t bytes = 0;
  // Bound of an accumulator: 255 * 128 * K, or, if that does not fit into int32, 255 times the
  // largest sum of a column's |weights|.
  int64_t magnitude = 0;
  AlignedBlock owned_values, owned_sums;  // empty if the memory is the caller's (block.h)

  int64_t panels() const { return nr > 0 ? divide_up(N, nr) : 0; }
  int64_t padded_k() const { return round_up(K, run); }
  const int8_t* panel(int64_t index) const { return values + index * nr * padded_k(); }
};

// Packs for the best usable row, or for `row`.
CPUACCEL_API QgemmWeights qgemm_pack(const QgemmPlain& plain);
CPUACCEL_API QgemmWeights qgemm_pack(const QgemmPlain& plain, QgemmFunction* row);
// The same into memory of the caller: whole panels of `values`, and their `column_sums`.
QgemmWeights qgemm_pack_into(const QgemmPlain& plain, QgemmFunction* row, int8_t* values,
                             int32_t* column_sums);
// Bytes of the packed weights.
int64_t qgemm_packed_bytes(int64_t K, int64_t N, QgemmFunction* row);
// Restores the weights: element (k, n) goes to weights[k * k_stride + n * n_stride].
CPUACCEL_API void qgemm_unpack(const QgemmWeights& packed, int8_t* weights, int64_t k_stride,
                               int64_t n_stride);

// Type of src, and how floats are quantized:
//   f32_to_u8, f32_to_s8            as quantize_u8 and quantize_s8, with `scale` and `zero_point`;
//                                   src_scale is 1, because dst's scales include `scale`
//   f32_rows_to_s8, f32_rows_to_u8  each row with its own scale, which is src_scale, from the least
//                                   and largest number of the row without NaNs:
//     s8: scale = max(|least|, |largest|, 2^-96) / 127
//         zero_point = 0
//     u8: least = min(least, 0), largest = max(largest, 0)
//         scale = max(largest / 255 - least / 255, 2^-96)
//         zero_point = clamp(round_half_to_even(-least * (1 / scale)), 0, 255)
// The results of a row with infinities or NaNs are unspecified.
enum class QgemmSrcType : uint8_t {
  u8,
  s8,
  f32_to_u8,
  f32_to_s8,
  f32_rows_to_u8,
  f32_rows_to_s8,
};

struct QgemmSrc {
  const void* data = nullptr;
  QgemmSrcType type = QgemmSrcType::u8;
  int64_t row_stride = 0;                // in elements
  float scale = 1.0f;                    // f32_to_u8, f32_to_s8
  int32_t zero_point = 0;                // for all rows, in the range of the bytes
  const int32_t* zero_points = nullptr;  // u8, s8: per row, replaces zero_point
  const float* scales = nullptr;         // u8, s8: src_scale per row; null means 1
};

// s32 uses only data, type and row_stride.
struct QgemmDst {
  void* data = nullptr;
  DataType type = DataType::f32;  // s32, f32, bf16, u8 or s8
  int64_t row_stride = 0;         // in elements
  const float* scales = nullptr;  // N
  const float* bias = nullptr;    // N; null means zeros
  // As in ConvDst:
  Activation activation = Activation::none;
  float inverse_scale = 1.0f;
  int32_t zero_point = 0;
  uint8_t min = 0, max = 255;
};

struct QgemmCall {
  const QgemmWeights* weights = nullptr;
  int64_t M = 0;
  QgemmSrc src;
  QgemmDst dst;
  ConvEpilogue epilogue;  // requires a dense u8 dst
};

// The reason why qgemm() would compute nothing, or null.
const char* qgemm_unsupported_reason(const QgemmCall& call);

// Runs on all of torch's threads. Returns null, or the reason from qgemm_unsupported_reason().
CPUACCEL_API [[nodiscard]] const char* qgemm(const QgemmCall& call);

}  // namespace cpuaccel::kernels
