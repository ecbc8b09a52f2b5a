// Checks and allocations of quantised activations that linear and convolution share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cpuaccel::quant {

// Refuses a result quantiser that quint8 can't have: scale must be positive and finite,
// zero_point in [0, 255]. `prefix` goes before "scale" and "zero_point" in the arguments' names.
void check_output_quantizer(const char* op, double scale, int64_t zero_point,
                            const char* prefix = "output_");

// Refuses a tensor that is not a per-tensor quantised quint8 tensor on the CPU.
void check_quint8(const char* op, const char* name, const at::Tensor& tensor);

// Scale and zero point of a float source's own range, as torch's dynamic ops choose them.
struct SourceQuantizer {
  double scale;
  int64_t zero_point;
};
SourceQuantizer dynamic_quantizer(const at::Tensor& contiguous_src, bool reduce_range);

inline const uint8_t* quint8_data(const at::Tensor& tensor) {
  return reinterpret_cast<const uint8_t*>(tensor.const_data_ptr<c10::quint8>());
}
inline uint8_t* mutable_quint8_data(const at::Tensor& tensor) {
  return reinterpret_cast<uint8_t*>(tensor.data_ptr<c10::quint8>());
}

// The largest count of outer slices (rows, images) whose source and result each stay below 2^31
// elements, the range of the libraries' int offsets. Throws if a single slice is too large.
int64_t slices_below_int32(const char* op, int64_t src_per_slice, int64_t dst_per_slice);

}  // namespace cpuaccel::quant
