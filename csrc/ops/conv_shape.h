// A convolution of torch's as the kernels of floats take it.
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

inline bool has_bias(const std::optional<at::Tensor>& bias) { return bias && bias->defined(); }

// The shape, if this is a convolution of one or two dimensions that we could compute, of dense f32
// tensors. What is wrong with a call is torch's to say: it is not ours.
std::optional<kernels::Conv2dShape> conv_shape(const at::Tensor& input, at::IntArrayRef weight,
                                               const std::optional<at::Tensor>& bias,
                                               const ConvArguments& arguments);

// An empty result of that shape, with as many dimensions as `input`.
at::Tensor conv_result(const at::Tensor& input, const kernels::Conv2dShape& shape,
                       kernels::ImageLayout layout);

inline at::MemoryFormat format_of(kernels::ImageLayout layout) {
  return layout == kernels::ImageLayout::channels_last ? at::MemoryFormat::ChannelsLast
                                                       : at::MemoryFormat::Contiguous;
}

}  // namespace cpuaccel::ops
