// Convolution of dense floats: conv1d and conv2d, below autograd; bf16 and f16 by way of floats.
//
// What we stand over is aten::_convolution, which aten::convolution calls: tracing records the
// inner one only, and a kernel that computes in the outer one would leave a traced graph without
// it. Torch has no kernel of it for the CPU, but one for all backends, so a refused call goes to
// at::native without the dispatcher.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_convolution.h>
#include <ATen/ops/_convolution_native.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/isa.h"
#include "kernels/conv_f32/conv_f32.h"
#include "kernels/dwconv_f32/dwconv_f32.h"
#include "ops/conv_choice.h"
#include "ops/lists.h"
#include "ops/own_call.h"

namespace cpuaccel::ops {
namespace {

using kernels::Conv2dShape;
using kernels::ImageLayout;
using Bias = std::optional<at::Tensor>;

struct ConvArguments {
  at::IntArrayRef stride, padding, dilation;
  bool transposed;
  int64_t groups;
};

bool dense(const at::Tensor& x, at::ScalarType type = at::kFloat) {
  return x.scalar_type() == type && x.layout() == at::kStrided && x.is_cpu();
}

bool has_bias(const Bias& bias) { return bias.has_value() && bias->defined(); }

bool all_at_least(at::IntArrayRef values, int64_t lowest) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v >= lowest; });
}

// Whether this is a convolution that we could compute, and `shape` of it. What is wrong with a call
// is torch's to say: it is not ours.
bool ours(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
          const ConvArguments& arguments, Conv2dShape& shape) {
  if (!dense(input) || !dense(weight) || arguments.transposed) {
    return false;
  }
  const int64_t spatial = weight.dim() - 2;
  const auto has_size = [&](at::IntArrayRef list) {
    return static_cast<int64_t>(list.size()) == spatial;
  };
  if ((spatial != 1 && spatial != 2) || input.dim() != weight.dim() ||
      !has_size(arguments.stride) || !has_size(arguments.padding) ||
      !has_size(arguments.dilation)) {
    return false;
  }
  if (!all_at_least(arguments.stride, 1) || !all_at_least(arguments.padding, 0) ||
      !all_at_least(arguments.dilation, 1) || arguments.groups < 1 || input.numel() == 0 ||
      weight.numel() == 0) {
    return false;
  }
  // conv1d is conv2d of images of one row.
  const auto last = static_cast<size_t>(spatial - 1);
  const bool plane = spatial == 2;
  shape = {.N = input.size(0),
           .C = input.size(1),
           .IH = plane ? input.size(2) : 1,
           .IW = input.size(-1),
           .OC = weight.size(0),
           .groups = arguments.groups,
           .KH = plane ? weight.size(2) : 1,
           .KW = weight.size(-1),
           .SH = plane ? arguments.stride[0] : 1,
           .SW = arguments.stride[last],
           .PH = plane ? arguments.padding[0] : 0,
           .PW = arguments.padding[last],
           .DH = plane ? arguments.dilation[0] : 1,
           .DW = arguments.dilation[last]};
  // Far from the overflow of any product below.
  constexpr int64_t kLargest = int64_t{1} << 30;
  if (std::max({shape.IH, shape.IW, shape.KH, shape.KW, shape.SH, shape.SW, shape.PH, shape.PW,
                shape.DH, shape.DW}) > kLargest) {
    return false;
  }
  const int64_t room_h = shape.IH + 2 * shape.PH - shape.DH * (shape.KH - 1) - 1;
  const int64_t room_w = shape.IW + 2 * shape.PW - shape.DW * (shape.KW - 1) - 1;
  shape.OH = room_h / shape.SH + 1;
  shape.OW = room_w / shape.SW + 1;
  if (room_h < 0 || room_w < 0 || shape.C % shape.groups != 0 || shape.OC % shape.groups != 0 ||
      weight.size(1) != shape.C / shape.groups) {
    return false;
  }
  return !has_bias(bias) || (dense(*bias) && bias->dim() == 1 && bias->size(0) == shape.OC);
}

// Torch's rule for the layout of a result.
bool channels_last(const at::Tensor& input, const at::Tensor& weight) {
  return weight.dim() == 4 && (input.suggest_memory_format() == at::MemoryFormat::ChannelsLast ||
                               weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast);
}

at::Tensor result_of(const at::Tensor& input, const Conv2dShape& s, at::MemoryFormat format) {
  const std::array<int64_t, 4> sizes{s.N, s.OC, s.OH, s.OW};
  if (input.dim() == 3) {
    const std::array<int64_t, 3> row{s.N, s.OC, s.OW};
    return at::detail::empty_cpu(row, at::kFloat, false, format);
  }
  return at::detail::empty_cpu(sizes, at::kFloat, false, format);
}

// KH x KW x C from whatever layout the weights of a depthwise convolution have.
at::Tensor taps_first(const at::Tensor& weight) {
  return weight.squeeze(1).permute({1, 2, 0}).contiguous();
}

at::Tensor run(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
               const Conv2dShape& s, ImageLayout layout, ConvKernel kernel) {
  const OwnCall own_call(Op::fp32_convolution);
  const bool last = layout == ImageLayout::channels_last;
  const auto format = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const auto src = input.contiguous(format);
  const auto dense_bias = has_bias(bias) ? bias->contiguous() : at::Tensor();
  const float* bias_data = dense_bias.defined() ? dense_bias.const_data_ptr<float>() : nullptr;
  auto dst = result_of(input, s, format);
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

std::optional<at::Tensor> convolve(const at::Tensor& input, const at::Tensor& weight,
                                   const Bias& bias, const ConvArguments& arguments) {
  Conv2dShape shape;
  if (!ours(input, weight, bias, arguments, shape)) {
    return std::nullopt;
  }
  const auto layout =
      channels_last(input, weight) ? ImageLayout::channels_last : ImageLayout::channels_first;
  const ConvKernel kernel = conv_choice(shape, layout).kernel;
  if (kernel == ConvKernel::torch) {
    return std::nullopt;
  }
  return run(input, weight, bias, shape, layout, kernel);
}

// Torch has a plain loop for 16-bit convolutions where the CPU has no arithmetic for them, twenty
// to seventy times slower than f32.
bool plain_loop_in_torch(at::ScalarType type) {
  return (type == at::kBFloat16 && !isa_usable(Isa::avx512)) ||
         (type == at::kHalf && !has_fp16_arithmetic());
}

// oneDNN 3.12, inside of torch 2.13, may read through a null pointer in its 16-bit convolutions for
// AVX-512 where an output sees padding only, between two taps further apart than the image is wide.
bool taps_beyond_image(const at::Tensor& input, at::IntArrayRef dilation) {
  return input.dim() > 2 && !dilation.empty() && dilation.back() > input.size(-1);
}

bool better_in_float(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                     at::IntArrayRef dilation) {
  const auto type = input.scalar_type();
  return dense(input, type) && dense(weight, type) && (!has_bias(bias) || dense(*bias, type)) &&
         (plain_loop_in_torch(type) || (type != at::kFloat && taps_beyond_image(input, dilation)));
}

template <OpName kName>
at::Tensor _convolution(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                        bool transposed, at::IntArrayRef output_padding, int64_t groups,
                        bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) {
  if (auto result =
          convolve(input, weight, bias, {stride, padding, dilation, transposed, groups})) {
    return std::move(*result);
  }
  if (better_in_float(input, weight, bias, dilation)) {
    const Bias float_bias = has_bias(bias) ? Bias(bias->to(at::kFloat)) : std::nullopt;
    return at::_convolution(input.to(at::kFloat), weight.to(at::kFloat), float_bias, stride,
                            padding, dilation, transposed, output_padding, groups, benchmark,
                            deterministic, cudnn_enabled, allow_tf32)
        .to(input.scalar_type());
  }
  return at::native::_convolution(input, weight, bias, stride, padding, dilation, transposed,
                                  output_padding, groups, benchmark, deterministic, cudnn_enabled,
                                  allow_tf32);
}

#define ROW(name, function) CPUACCEL_OVERRIDE(name, c10::DispatchKey::CPU, function)
constexpr std::array kOverrides{
    ROW("aten::_convolution", _convolution),
};
#undef ROW

}  // namespace

std::span<const Override> convolution_overrides() { return kOverrides; }

}  // namespace cpuaccel::ops
