// Convolutions of dense floats on kernels of ours, where conv_choice.h says so: nothing else.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/conv_shape.h"

namespace cpuaccel::ops {

// Whether conv1d or conv2d of such tensors would run on ours. Values are not read. `volume`: they
// are planes of a conv3d.
bool takes_own_convolution(const at::Tensor& input, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias, const ConvArguments& arguments,
                           bool volume = false);

std::optional<at::Tensor> own_convolution(const at::Tensor& input, const at::Tensor& weight,
                                          const std::optional<at::Tensor>& bias,
                                          const ConvArguments& arguments, bool volume = false);

// conv3d, as conv2d of images whose channels are those of all depths that an output depth sees.
std::optional<at::Tensor> own_convolution_3d(const at::Tensor& input, const at::Tensor& weight,
                                             const std::optional<at::Tensor>& bias,
                                             const ConvArguments& arguments);

}  // namespace cpuaccel::ops
