// Family row_scale: multiplies each column of a matrix by its own factor, as squeeze-and-excite
// scales channels by gates.
//
//   dst[r * columns + c] = src[r * columns + c] * scale[c]
//
// for r < rows, c < columns. All operands are f32, or all are bf16, whose products are rounded as
// in torch. dst may be src.
// Bound: each number read once and written once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// dst[i] = src[i] * scale[i] for i < count.
struct RowScaleKernels {
  void (*f32)(const float* src, const float* scale, float* dst, int64_t count);
  void (*bf16)(const uint16_t* src, const uint16_t* scale, uint16_t* dst, int64_t count);
};

using RowScaleFunction = const RowScaleKernels&();

#if defined(__x86_64__)
#define CPUACCEL_ROW_SCALE_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_ROW_SCALE_KERNELS(row) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_ROW_SCALE_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) RowScaleFunction row_scale_##name;
CPUACCEL_ROW_SCALE_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<RowScaleFunction>> row_scale_kernels();

// Runs the best usable row on all of torch's threads.
void row_scale(const float* src, const float* scale, float* dst, int64_t rows, int64_t columns);
void row_scale(const uint16_t* src, const uint16_t* scale, uint16_t* dst, int64_t rows,
               int64_t columns);

}  // namespace cpuaccel::kernels
