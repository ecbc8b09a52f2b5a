#include "ops/cpuaccel_convolution.h"

#include "kernels/conv_f32/conv_f32.h"
#include "kernels/dwconv_f32/dwconv_f32.h"
#include "ops/conv_choice.h"
#include "ops/kernel_call.h"

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
  const KernelCall kernel_call(Op::fp32_convolution);
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

struct Chosen {
  Conv2dShape shape;
  ImageLayout layout;
  ConvKernel kernel;
};

std::optional<Chosen> choose(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                             const ConvArguments& arguments, bool volume) {
  const auto shape = conv_shape(input, weight.sizes(), bias, arguments);
  if (!shape || !dense_floats(weight)) {
    return std::nullopt;
  }
  const auto layout =
      channels_last(input, weight) ? ImageLayout::channels_last : ImageLayout::channels_first;
  const ConvKernel kernel = conv_choice(*shape, layout, volume).kernel;
  return kernel == ConvKernel::torch ? std::nullopt : std::optional(Chosen{*shape, layout, kernel});
}

}  // namespace

bool runs_cpuaccel_convolution(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                               const ConvArguments& arguments, bool volume) {
  return choose(input, weight, bias, arguments, volume).has_value();
}

std::optional<at::Tensor> cpuaccel_convolution(const at::Tensor& input, const at::Tensor& weight,
                                               const Bias& bias, const ConvArguments& arguments,
                                               bool volume) {
  const auto chosen = choose(input, weight, bias, arguments, volume);
  if (!chosen) {
    return std::nullopt;
  }
  return run(input, weight, bias, chosen->shape, chosen->layout, chosen->kernel);
}

}  // namespace cpuaccel::ops
