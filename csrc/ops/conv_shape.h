// The shape of a torch convolution, as cpuaccel's float kernels take it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/conv2d_shape.h"

namespace cpuaccel::ops {

struct ConvArguments {
  at::IntArrayRef stride, padding, dilation;
  int64_t groups;
};

bool dense_of(const at::Tensor& x, at::ScalarType type);
inline bool dense_floats(const at::Tensor& x) { return dense_of(x, at::kFloat); }

// On a CPU without arithmetic for them, torch runs 16-bit convolutions in a plain loop, twenty to
// seventy times slower than f32.
bool plain_loop_in_torch(at::ScalarType type);

inline bool has_bias(const std::optional<at::Tensor>& bias) { return bias && bias->defined(); }

// The shape, if this is a 1-d or 2-d convolution of dense f32 tensors that cpuaccel's kernels can
// compute. Invalid arguments also give nullopt: torch raises the error.
std::optional<kernels::Conv2dShape> conv_shape(const at::Tensor& input, at::IntArrayRef weight,
                                               const std::optional<at::Tensor>& bias,
                                               const ConvArguments& arguments);

// An uninitialized output of that shape, with as many dimensions as `input`.
at::Tensor conv_result(const at::Tensor& input, const kernels::Conv2dShape& shape,
                       kernels::ImageLayout layout);

inline at::MemoryFormat format_of(kernels::ImageLayout layout) {
  return layout == kernels::ImageLayout::channels_last ? at::MemoryFormat::ChannelsLast
                                                       : at::MemoryFormat::Contiguous;
}

}  // namespace cpuaccel::ops
