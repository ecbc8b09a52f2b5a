// What quantized linear and convolution layers need to know about src: the quantizer of a float
// src, and how many images or rows one call can take.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cpuaccel::quant {

// Scale and zero point for the range of a float src, as torch's dynamic ops choose them.
struct SourceQuantizer {
  double scale;
  int64_t zero_point;
};
SourceQuantizer dynamic_quantizer(const at::Tensor& contiguous_src, bool reduce_range);

// The largest number of outer slices (rows, images) whose src and dst each stay below 2^31
// elements, the range of the libraries' int offsets. Throws if a single slice is too large.
int64_t slices_below_int32(const char* op, int64_t src_per_slice, int64_t dst_per_slice);

}  // namespace cpuaccel::quant
