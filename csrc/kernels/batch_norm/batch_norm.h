// Family batch_norm: batch norm of matrices: a factor and an offset for each column.
//
//   dst[r,c] = max(scale[c] * src[r,c] + shift[c], lowest)
//
// for r < rows, c < columns. Columns are contiguous, rows `stride` elements apart. src and dst are
// both f32 or both bf16, scale and shift f32. The product and the sum are one operation (fma), so
// that every row of the kernel list gives the same bits; bf16 is rounded once, as in torch. A NaN
// gives a NaN. dst may be src.
// Bound: each element read once and written once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

template <typename T>
struct BatchNormRows {
  const T* src;
  T* dst;
  int64_t rows, src_stride, dst_stride;
};

struct BatchNormNumbers {
  int64_t columns = 0;
  const float* scale = nullptr;  // for bf16 in the order of arranged_for_pairs()
  const float* shift = nullptr;
  float lowest = 0;
};

struct BatchNormKernels {
  int64_t lanes;  // floats per vector
  void (*f32)(const BatchNormNumbers& numbers, const BatchNormRows<float>& rows);
  void (*bf16)(const BatchNormNumbers& numbers, const BatchNormRows<uint16_t>& rows);
};

using BatchNormFunction = const BatchNormKernels&();

#define CPUACCEL_KERNEL(name) BatchNormFunction batch_norm_##name;
#include "kernels/batch_norm/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<BatchNormFunction>> batch_norm_kernels();

// Reorders each 2 * lanes numbers: those at even positions first, then those at odd ones, as the
// kernels split vectors of bf16 pairs. Zeros pad the end.
std::vector<float> arranged_for_pairs(std::span<const float> numbers, int64_t lanes);

// Factors and offsets of columns, prepared for the best usable row.
class BatchNorm {
 public:
  // `lowest`: 0 if a ReLU follows, else -infinity.
  BatchNorm(std::span<const float> scale, std::span<const float> shift, float lowest, bool bf16);

  // Uses all of torch's threads. The element type must match the constructor's `bf16`.
  void run(const BatchNormRows<float>& rows) const;
  void run(const BatchNormRows<uint16_t>& rows) const;

 private:
  BatchNormNumbers numbers() const;

  const BatchNormKernels& kernels_;
  int64_t columns_;
  std::vector<float> scale_, shift_;
  float lowest_;
};

}  // namespace cpuaccel::kernels
