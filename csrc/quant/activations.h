// Checks and allocations of quantised activations that linear and convolution share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cpuaccel::quant {

// Refuses a result quantiser that quint8 (or qint8) can't have: scale must be positive and finite,
// zero_point in [0, 255]. `prefix` goes before "scale" and "zero_point" in the arguments' names.
void check_output_quantizer(const char* op, double scale, int64_t zero_point,
                            const char* prefix = "output_", at::ScalarType dtype = at::kQUInt8);

// Refuses a tensor that is not a per-tensor quantised quint8 tensor on the CPU.
void check_quint8(const char* op, const char* name, const at::Tensor& tensor);
// The same, but qint8 goes too where torch's engine takes it.
void check_activation(const char* op, const char* name, const at::Tensor& tensor);

// Scale and zero point of a float source's own range, as torch's dynamic ops choose them.
struct SourceQuantizer {
  double scale;
  int64_t zero_point;
};
SourceQuantizer dynamic_quantizer(const at::Tensor& contiguous_src, bool reduce_range);

// The largest count of outer slices (rows, images) whose source and result each stay below 2^31
// elements, the range of the libraries' int offsets. Throws if a single slice is too large.
int64_t slices_below_int32(const char* op, int64_t src_per_slice, int64_t dst_per_slice);

}  // namespace cpuaccel::quant
