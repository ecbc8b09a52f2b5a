// Float convolutions (1-d to 3-d) on cpuaccel's kernels, where conv_choice.h chooses them, or calls
// learned that they are faster.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "base/learned_choice.h"
#include "ops/conv_choice.h"
#include "ops/conv_shape.h"

namespace cpuaccel::ops {

// How conv1d or conv2d of these tensors runs.
enum ConvCandidate : int8_t { kTorchConvolution, kCpuaccelConvolution };

struct ConvRun {
  kernels::Conv2dShape shape;
  kernels::ImageLayout layout;
  ConvKernel kernel;  // cpuaccel's, whether it runs or not
  ConvCandidate runs = kTorchConvolution;
  LearnedChoice* open = nullptr;  // calls still learn which candidate is faster
};

// nullopt: cpuaccel's kernels cannot compute it.
std::optional<ConvRun> convolution_run(const at::Tensor& input, const at::Tensor& weight,
                                       const std::optional<at::Tensor>& bias,
                                       const ConvArguments& arguments);
at::Tensor run_cpuaccel_convolution(const ConvRun& run, const at::Tensor& input,
                                    const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias);

// Planes of a conv3d, which are not learned. Whether they would run on cpuaccel's kernels (their
// values are not read), and the result; nullopt: torch runs.
bool runs_plane_convolution(const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const ConvArguments& arguments);
std::optional<at::Tensor> cpuaccel_plane_convolution(const at::Tensor& input,
                                                     const at::Tensor& weight,
                                                     const std::optional<at::Tensor>& bias,
                                                     const ConvArguments& arguments);

// conv3d as conv2d: the images' channels are the channels of all depths that an output depth sees.
std::optional<at::Tensor> cpuaccel_convolution_3d(const at::Tensor& input, const at::Tensor& weight,
                                                  const std::optional<at::Tensor>& bias,
                                                  const ConvArguments& arguments);

}  // namespace cpuaccel::ops
