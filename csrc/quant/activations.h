// Argument checks that quantized linear and convolution layers share: activations, output scale and
// zero point, sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cpuaccel::quant {

// Throws unless scale is positive and finite and zero_point is in the range of `dtype`: [0, 255]
// for quint8, [-128, 127] for qint8. `prefix` goes before "scale" and "zero_point" in the error
// message.
void check_output_quantizer(const char* op, double scale, int64_t zero_point,
                            const char* prefix = "output_", at::ScalarType dtype = at::kQUInt8);

// Throws unless the tensor is a per-tensor quantized quint8 tensor on the CPU.
void check_quint8(const char* op, const char* name, const at::Tensor& tensor);
// The same, but also accepts qint8 if torch's engine does.
void check_activation(const char* op, const char* name, const at::Tensor& tensor);

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
