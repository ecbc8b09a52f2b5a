// Float convolutions (1-d to 3-d) on cpuaccel's kernels, where conv_choice.h chooses them. nullopt:
// torch runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/conv_shape.h"

namespace cpuaccel::ops {

// Whether conv1d or conv2d of these tensors would run on cpuaccel's kernels. Their values are not
// read. `volume`: they are planes of a conv3d.
bool runs_cpuaccel_convolution(const at::Tensor& input, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias,
                               const ConvArguments& arguments, bool volume = false);

std::optional<at::Tensor> cpuaccel_convolution(const at::Tensor& input, const at::Tensor& weight,
                                               const std::optional<at::Tensor>& bias,
                                               const ConvArguments& arguments, bool volume = false);

// conv3d as conv2d: the images' channels are the channels of all depths that an output depth sees.
std::optional<at::Tensor> cpuaccel_convolution_3d(const at::Tensor& input, const at::Tensor& weight,
                                                  const std::optional<at::Tensor>& bias,
                                                  const ConvArguments& arguments);

}  // namespace cpuaccel::ops
