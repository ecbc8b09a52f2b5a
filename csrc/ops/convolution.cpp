// aten::_convolution of dense float tensors in one to three dimensions, below autograd; bf16 and
// f16 are computed in f32 where torch is slow or may crash.
//
// cpuaccel overrides aten::_convolution, which aten::convolution calls. Tracing records the inner
// op only, so a kernel that computes in the outer one would leave a traced graph without it. torch
// has no CPU kernel of the inner op, but one for all backends, so fallbacks call at::native without
// the dispatcher.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_convolution.h>

#include <optional>

#include "base/counters.h"
#include "base/isa.h"
#include "ops/conv_shape.h"
#include "ops/cpuaccel_convolution.h"
#include "ops/kernel_call.h"
#include "ops/learning.h"
#include "ops/matmul/fastmath.h"
#include "ops/override.h"
#include "ops/roofline.h"
#include "ops/torch_compat/cpu_kernels.h"

namespace cpuaccel::ops {
namespace {

using Bias = std::optional<at::Tensor>;

constexpr int64_t kMostDimensions = 5;

// oneDNN 3.12, as in torch 2.13, may read through a null pointer in its 16-bit convolutions for
// AVX-512: where an output sees padding only, between two taps further apart than the image is
// wide.
bool taps_beyond_image(const at::Tensor& input, at::IntArrayRef dilation) {
  return input.dim() > 2 && !dilation.empty() && dilation.back() > input.size(-1);
}

bool better_in_float(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                     at::IntArrayRef dilation) {
  const auto type = input.scalar_type();
  return dense_of(input, type) && dense_of(weight, type) &&
         (!has_bias(bias) || dense_of(*bias, type)) &&
         (plain_loop_in_torch(type) || (type != at::kFloat && taps_beyond_image(input, dilation)));
}

// Whether bf16 with casts is faster than f32 under fast math, where torch's bf16 kernels are
// oneDNN's. With enough terms per output, and enough pixels to share the cast of the weights, it is
// 1.3 to 1.8 times as fast on a core of Zen 4.
bool rounded_is_faster(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                       const ConvArguments& arguments) {
  constexpr int64_t kFewTerms = 128, kFewChannels = 64, kFewPixels = 100;
  if (weight.dim() > 4 || !fastmath_on() || !isa_usable(Isa::avx512)) {
    return false;
  }
  const auto shape = conv_shape(input, weight.sizes(), bias, arguments);
  return shape && dense_floats(weight) && weight.size(1) * shape->taps() >= kFewTerms &&
         shape->OC >= kFewChannels && shape->N * shape->pixels() >= kFewPixels &&
         !taps_beyond_image(input, arguments.dilation);
}

// Operands and sums are rounded to bf16, and the bias is added in f32.
template <typename Convolve>
at::Tensor rounded(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                   const Convolve& convolve_bf16) {
  const at::Tensor weight_bf16 =
      rounds_while_packing() ? to_bfloat16(weight) : weight_to_bfloat16(weight);
  at::Tensor result = convolve_bf16(to_bfloat16(input), weight_bf16).to(at::kFloat);
  if (has_bias(bias)) {
    at::DimVector sizes(static_cast<size_t>(result.dim()), 1);
    sizes[1] = result.size(1);
    result.add_(bias->reshape(sizes));
  }
  calls().add(Op::fp32_convolution, Provider::intree);
  return result;
}

// The result of cpuaccel's kernel, or of a call that learns whether to use it. nullopt: torch runs.
template <typename ByTorch>
std::optional<at::Tensor> not_by_torch(const at::Tensor& input, const at::Tensor& weight,
                                       const Bias& bias, const ConvArguments& arguments,
                                       const ByTorch& by_torch) {
  if (weight.dim() == 5) {
    return cpuaccel_convolution_3d(input, weight, bias, arguments);
  }
  const auto found = convolution_run(input, weight, bias, arguments);
  if (!found) {
    return std::nullopt;
  }
  if (found->open != nullptr) {
    const double work = multiply_adds(found->shape);
    return learn(*found->open, found->runs, work, least_seconds_of_floats(work),
                 [&](int candidate, bool is_probe) {
                   if (candidate == kTorchConvolution) {
                     return by_torch();
                   }
                   std::optional<KernelCall> counted;
                   if (!is_probe) {
                     counted.emplace(Op::fp32_convolution);
                   }
                   return run_cpuaccel_convolution(*found, input, weight, bias);
                 });
  }
  if (found->runs == kTorchConvolution) {
    return std::nullopt;
  }
  CPUACCEL_KERNEL_CALL(fp32_convolution);
  return run_cpuaccel_convolution(*found, input, weight, bias);
}

template <OpName kName>
at::Tensor _convolution(const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                        bool transposed, at::IntArrayRef output_padding, int64_t groups,
                        bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) {
  // torch's kernels read past arrays of three sizes and crash the process (pytorch #142209).
  TORCH_CHECK(input.dim() <= kMostDimensions, "convolution: expected input of at most ",
              kMostDimensions, " dimensions (batch, channels and 3 spatial ones), but got shape ",
              input.sizes());
  if (!transposed && rounded_is_faster(input, weight, bias, {stride, padding, dilation, groups})) {
    return rounded(input, weight, bias, [&](const at::Tensor& src, const at::Tensor& weights) {
      return at::native::_convolution(src, weights, std::nullopt, stride, padding, dilation,
                                      transposed, output_padding, groups, benchmark, deterministic,
                                      cudnn_enabled, allow_tf32);
    });
  }
  const auto by_torch = [&] {
    return at::native::_convolution(input, weight, bias, stride, padding, dilation, transposed,
                                    output_padding, groups, benchmark, deterministic, cudnn_enabled,
                                    allow_tf32);
  };
  if (!transposed) {
    const ConvArguments arguments{stride, padding, dilation, groups};
    if (auto result = not_by_torch(input, weight, bias, arguments, by_torch)) {
      return std::move(*result);
    }
  }
  if (better_in_float(input, weight, bias, dilation)) {
    const Bias float_bias = has_bias(bias) ? Bias(bias->to(at::kFloat)) : std::nullopt;
    return at::_convolution(input.to(at::kFloat), weight.to(at::kFloat), float_bias, stride,
                            padding, dilation, transposed, output_padding, groups, benchmark,
                            deterministic, cudnn_enabled, allow_tf32)
        .to(input.scalar_type());
  }
  return by_torch();
}

#define ROW(name, function) CPUACCEL_OVERRIDE(name, c10::DispatchKey::CPU, function)
CPUACCEL_OVERRIDES{
    ROW("aten::_convolution", _convolution),
};
#undef ROW

}  // namespace

}  // namespace cpuaccel::ops
