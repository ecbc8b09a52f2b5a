// The last resort for fused ops that torch's x86 engine does not have and no provider runs: the
// same arithmetic in float. Slow, right, and counted as a fallback.
#pragma once

#include <ATen/core/Tensor.h>

#include "quant/kernel.h"
#include "quant/weight.h"

namespace cpuaccel::quant {

// quint8(post(conv or linear(input) + bias)); `accum` is added before a relu where it is defined.
at::Tensor run_in_float(const LayerShape& shape, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, const at::Tensor& input,
                        const at::Tensor& accum, PostOp post, double negative_slope,
                        double output_scale, int64_t output_zero_point);

}  // namespace cpuaccel::quant
