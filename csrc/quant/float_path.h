// Where no provider runs a call as a whole: what is fused with it in float behind the layer's real
// numbers, or, the last resort where torch's engine is not right either, all of it in float: slow.
// Both are counted as fallbacks.
#pragma once

#include <ATen/core/Tensor.h>

#include "quant/kernel.h"
#include "quant/weight.h"

namespace cpuaccel::quant {

// Under what apply_post() behind a kernel of bytes is counted.
inline constexpr auto kPostInFloat =
    "no kernel fuses what follows: it is done in float behind ours";

// `real` with `accum` added, where it is defined, and then the function of `post`; in place.
void apply_post(at::Tensor& real, const at::Tensor& accum, PostOp post, double negative_slope);

// post(conv or linear(input) + bias), float; `accum` is added before a relu where it is defined.
at::Tensor real_in_float(const LayerShape& shape, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const at::Tensor& input,
                         const at::Tensor& accum, PostOp post, double negative_slope);

// The same, quantised to the dtype of `input`.
at::Tensor run_in_float(const LayerShape& shape, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, const at::Tensor& input,
                        const at::Tensor& accum, PostOp post, double negative_slope,
                        double output_scale, int64_t output_zero_point);

}  // namespace cpuaccel::quant
