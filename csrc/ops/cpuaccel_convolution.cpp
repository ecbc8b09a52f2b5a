#include "ops/cpuaccel_convolution.h"

#include <array>

#include "kernels/conv_f32/conv_f32.h"
#include "kernels/dwconv_f32/dwconv_f32.h"
#include "ops/kernel_call.h"
#include "ops/learning.h"

namespace cpuaccel::ops {
namespace {

using kernels::Conv2dShape;
using kernels::ImageLayout;
using Bias = std::optional<at::Tensor>;

// torch's rule for the layout of a result.
bool channels_last(const at::Tensor& input, const at::Tensor& weight) {
  return weight.dim() == 4 && (input.suggest_memory_format() == at::MemoryFormat::ChannelsLast ||
                               weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast);
}

// Depthwise weights of any layout as KH x KW x C.
at::Tensor taps_first(const at::Tensor& weight) {
  return weight.squeeze(1).permute({1, 2, 0}).contiguous();
}

at::Tensor run(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
               const Conv2dShape& s, ImageLayout layout, ConvKernel kernel) {
  const bool last = layout == ImageLayout::channels_last;
  const auto format = format_of(layout);
  const auto src = input.contiguous(format);
  const auto dense_bias = has_bias(bias) ? bias->contiguous() : at::Tensor();
  const float* bias_data = dense_bias.defined() ? dense_bias.const_data_ptr<float>() : nullptr;
  auto dst = conv_result(input, s, layout);
  if (kernel == ConvKernel::depthwise) {
    const auto weights = last ? taps_first(weight) : weight.contiguous();
    kernels::dwconv_f32({s, layout, src.const_data_ptr<float>(), weights.const_data_ptr<float>(),
                         bias_data, dst.mutable_data_ptr<float>()});
  } else {
    const auto weights = weight.contiguous(format);
    kernels::conv_f32({s, layout, src.const_data_ptr<float>(), weights.const_data_ptr<float>(),
                       bias_data, dst.mutable_data_ptr<float>()});
  }
  return dst;
}

// Takes what calls with these sizes have learned, or learn now.
void learn_kernel(ConvRun& run) {
  const Conv2dShape& s = run.shape;
  const int flags = (run.layout == ImageLayout::channels_last ? 1 : 0) | (s.SW > 1 ? 2 : 0) |
                    (s.groups == s.C ? 4 : 0);
  const bool suggests_torch = run.runs == kTorchConvolution;
  const std::array<int8_t, 2> candidates{run.runs,
                                         suggests_torch ? kCpuaccelConvolution : kTorchConvolution};
  const auto found = learned(LearnedOp::convolution, at::kFloat, flags,
                             {s.N, s.C / s.groups, s.OC, s.groups, s.pixels(), s.taps()},
                             multiply_adds(s), candidates);
  run.runs = static_cast<ConvCandidate>(found.candidate);
  run.open = found.open;
}

std::optional<ConvRun> run_of(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                              const ConvArguments& arguments, bool volume) {
  const auto shape = conv_shape(input, weight.sizes(), bias, arguments);
  if (!shape || !dense_floats(weight)) {
    return std::nullopt;
  }
  const auto layout =
      channels_last(input, weight) ? ImageLayout::channels_last : ImageLayout::channels_first;
  const ConvKernel of_table = conv_choice(*shape, layout, volume).kernel;
  return of_table == ConvKernel::torch
             ? ConvRun{*shape, layout, cpuaccel_conv_kernel(*shape, layout), kTorchConvolution}
             : ConvRun{*shape, layout, of_table, kCpuaccelConvolution};
}

}  // namespace

std::optional<ConvRun> convolution_run(const at::Tensor& input, const at::Tensor& weight,
                                       const Bias& bias, const ConvArguments& arguments) {
  auto found = run_of(input, weight, bias, arguments, false);
  if (found && isa_usable(Isa::avx2) && !convolutions_measured_here() &&
      !cpuaccel_convolutions_only()) {
    learn_kernel(*found);
  }
  return found;
}

at::Tensor run_cpuaccel_convolution(const ConvRun& found, const at::Tensor& input,
                                    const at::Tensor& weight, const Bias& bias) {
  return run(input, weight, bias, found.shape, found.layout, found.kernel);
}

std::optional<at::Tensor> cpuaccel_plane_convolution(const at::Tensor& input,
                                                     const at::Tensor& weight, const Bias& bias,
                                                     const ConvArguments& arguments) {
  const auto found = run_of(input, weight, bias, arguments, true);
  if (!found || found->runs != kCpuaccelConvolution) {
    return std::nullopt;
  }
  CPUACCEL_KERNEL_CALL(fp32_convolution);
  return run_cpuaccel_convolution(*found, input, weight, bias);
}

bool runs_plane_convolution(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                            const ConvArguments& arguments) {
  const auto found = run_of(input, weight, bias, arguments, true);
  return found && found->runs == kCpuaccelConvolution;
}

}  // namespace cpuaccel::ops
