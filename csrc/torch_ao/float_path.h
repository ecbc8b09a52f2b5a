// Fallbacks that compute in float: post-ops that no kernel fuses, applied to a layer's f32 results,
// or the whole layer if torch's engine is not correct either, which is slow. Both are counted as
// fallbacks.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch_ao/names.h"

namespace cpuaccel::torch_ao {

// The reason under which apply_post() behind an int8 kernel is counted.
inline constexpr auto kPostInFloat =
    "no kernel fuses the post-op: it runs in float after the layer";

// Adds `accum` to `real` if it is defined, then applies `post`; in place.
void apply_post(at::Tensor& real, const at::Tensor& accum, PostOp post, double negative_slope);

// post(conv or linear(input) + bias) in float. `accum`, if defined, is added before the post-op.
at::Tensor real_in_float(const LayerShape& shape, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const at::Tensor& input,
                         const at::Tensor& accum, PostOp post, double negative_slope);

// The same, quantized to the dtype of `input`.
at::Tensor run_in_float(const LayerShape& shape, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, const at::Tensor& input,
                        const at::Tensor& accum, PostOp post, double negative_slope,
                        double output_scale, int64_t output_zero_point);

}  // namespace cpuaccel::torch_ao
