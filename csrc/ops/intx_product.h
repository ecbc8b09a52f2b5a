// Products of rows by packed weights with scales for groups: families gemm_wq and qgemm_wq.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/gemm_wq/weights.h"

namespace cpuaccel::ops {

// input: of a gemm type, plain, its last dimension K. With `quantize`, its rows are rounded to
// int8, each with a scale and a zero point of its own. The result has input's type.
at::Tensor intx_product(const at::Tensor& input, const kernels::WqWeights& weights,
                        const std::optional<at::Tensor>& bias, bool quantize);

}  // namespace cpuaccel::ops
