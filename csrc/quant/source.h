// What int8 linear and convolution layers need to know about src: the quantizer of a float src, and
// how many images or rows one call can take.
#pragma once

#include <cstdint>

#include "base/api.h"

namespace cpuaccel::quant {

// Scale and zero point for the range of a float src, as torch's dynamic ops choose them.
struct SourceQuantizer {
  double scale;
  int32_t zero_point;
};
// `count` contiguous floats. reduce_range: bytes of seven bits. Throws std::logic_error if one of
// them is NaN.
CPUACCEL_API SourceQuantizer dynamic_quantizer(const float* src, int64_t count, bool reduce_range);

// The largest number of outer slices (rows, images) whose src and dst each stay below 2^31
// elements, the range of the libraries' int offsets. Throws std::logic_error if a single slice is
// too large.
int64_t slices_below_int32(const char* op, int64_t src_per_slice, int64_t dst_per_slice);

}  // namespace cpuaccel::quant
