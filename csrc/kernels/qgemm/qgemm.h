// Family qgemm: products of matrices of bytes, of a source by weights that are packed once.
//
//   acc[m,n]  = sum over k of (src[m,k] - src_zero_point[m]) * weights[k,n]
//   real[m,n] = function(fma(float(acc[m,n]) * src_scale[m], scales[n], bias[n]))
//   s32:  acc, modulo 2^32
//   f32:  real
//   bf16: real, rounded to nearest even
//   u8:   clamp(round_half_to_even(real * inverse_scale) + zero_point, min, max)
//   s8:   the same by way of u8: zero_point, min and max are those of the result plus 128
//
// src M x K, weights K x N, dst M x N. Where src_scale is 1, which is exact, u8, s8 and f32 are the
// numbers of qconv (conv_dst.h); a real that is NaN becomes min.
//
// acc is exact in int32 as long as 255 times each column's sum of |weights| fits, as it does up to
// K = 65,793. Beyond that only s32 is computed: qgemm_refuses() tells, and qgemm() does nothing.
//
// Bound: M * N * K multiply-adds at the rate of the instruction; up to some 16 rows, the bytes of
// the weights once.
#pragma once

#include <cstdint>
#include <span>

#include "base/scratch.h"
#include "kernels/conv_dst.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct QgemmKernels;  // kernels/qgemm/kernels.h
using QgemmFunction = const QgemmKernels&();

#if defined(__aarch64__)
#define CPUACCEL_QGEMM_KERNELS(row)                                                    \
  row(arm64_sve, Isa::sve) row(arm64_i8mm, Isa::i8mm) row(arm64_dotprod, Isa::dotprod) \
      row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_QGEMM_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) QgemmFunction qgemm_##name;
CPUACCEL_QGEMM_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<QgemmFunction>> qgemm_kernels();

// Element (k, n) is at data[k * k_stride + n * n_stride].
struct QgemmPlain {
  const int8_t* data = nullptr;
  int64_t K = 0, N = 0;
  int64_t k_stride = 0, n_stride = 0;
};

// int8: panel of nr columns, run of k, column, `run` bytes of successive k; zero where there is no
// k. In the layout of the row they were packed by, which is the one that multiplies them.
struct QgemmWeights {
  QgemmFunction* row = nullptr;
  int64_t K = 0, N = 0;
  AlignedBlock values;       // int8
  AlignedBlock column_sums;  // int32, of whole panels
  int64_t bytes = 0;
  // Of an accumulator, at most: 255 * 128 * K, or where that is more than an int32 255 times the
  // largest sum of a column's |weights|.
  int64_t magnitude = 0;

  const int8_t* panel(int64_t index) const;
  const int32_t* sums() const { return reinterpret_cast<const int32_t*>(column_sums.get()); }
};

// By the best usable row, or `row`.
QgemmWeights qgemm_pack(const QgemmPlain& plain);
QgemmWeights qgemm_pack(const QgemmPlain& plain, QgemmFunction* row);
// Bytes that the packed weights take.
int64_t qgemm_packed_bytes(int64_t K, int64_t N, QgemmFunction* row);
// The weights again, element (k, n) to weights[k * k_stride + n * n_stride].
void qgemm_unpack(const QgemmWeights& packed, int8_t* weights, int64_t k_stride, int64_t n_stride);

// What src is, and how floats become bytes:
//   f32_to_u8, f32_to_s8            as quantize_u8 and quantize_s8, with `scale` and `zero_point`;
//                                   src_scale is 1, for dst's scales have `scale` in them
//   f32_rows_to_s8, f32_rows_to_u8  each row with a scale of its own, which is src_scale, made of
//                                   its least and largest number, NaNs left out:
//     s8: scale = max(|least|, |largest|, 2^-96) / 127
//         zero_point = 0
//     u8: least and largest at most and at least 0
//         scale = max(largest / 255 - least / 255, 2^-96)
//         zero_point = clamp(round_half_to_even(-least * (1 / scale)), 0, 255)
// A row that holds infinities or NaNs gives results that are not specified.
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
  int32_t zero_point = 0;                // of all rows, in the range of the bytes
  const int32_t* zero_points = nullptr;  // u8, s8: of each row, in the place of it
  const float* scales = nullptr;         // u8, s8: src_scale of each row, or 1
};

enum class QgemmDstType : uint8_t { s32, f32, bf16, u8, s8 };

// s32 has data, type and row_stride alone.
struct QgemmDst {
  void* data = nullptr;
  QgemmDstType type = QgemmDstType::f32;
  int64_t row_stride = 0;         // in elements
  const float* scales = nullptr;  // N
  const float* bias = nullptr;    // N, or zeros
  // As in ConvDst:
  ConvFunction function = ConvFunction::none;
  float inverse_scale = 1.0f;
  int32_t zero_point = 0;
  uint8_t min = 0, max = 255;
};

struct QgemmCall {
  const QgemmWeights* weights = nullptr;
  int64_t M = 0;
  QgemmSrc src;
  QgemmDst dst;
  ConvEpilogue epilogue;  // dst is u8 and dense then
};

// Why qgemm() would compute nothing, or null.
const char* qgemm_refuses(const QgemmCall& call);

// On all of torch's threads. Null, or what qgemm_refuses() says.
[[nodiscard]] const char* qgemm(const QgemmCall& call);

}  // namespace cpuaccel::kernels
