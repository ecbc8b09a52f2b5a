// The last resort where neither a provider nor torch's x86 engine is right: fused ops that it does
// not have, and sums beyond int32. The same arithmetic in float: slow, and counted as a fallback.
#pragma once

#include <ATen/core/Tensor.h>

#include "quant/kernel.h"
#include "quant/weight.h"

namespace cpuaccel::quant {

// post(conv or linear(input) + bias), float; `accum` is added before a relu where it is defined.
at::Tensor real_in_float(const LayerShape& shape, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const at::Tensor& input,
                         const at::Tensor& accum, PostOp post, double negative_slope);

// The same, quantised to quint8.
at::Tensor run_in_float(const LayerShape& shape, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, const at::Tensor& input,
                        const at::Tensor& accum, PostOp post, double negative_slope,
                        double output_scale, int64_t output_zero_point);

}  // namespace cpuaccel::quant
