// Products of rows by packed weights with scales for groups: families gemm_wq and qgemm_wq.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/gemm_wq/weights.h"
#include "ops/quantized_rows.h"

namespace cpuaccel::ops {

// input: of a gemm type, plain, its last dimension K. With `quantize`, its rows are rounded to
// int8, each with a scale and a zero point of its own. The result has input's type.
at::Tensor intx_product(const at::Tensor& input, const kernels::WqWeights& weights,
                        const std::optional<at::Tensor>& bias, bool quantize);

// dst, dense, of M x N and a gemm type = the rows times the weights, plus bias: N floats, or null.
void multiply_rows(const QuantizedRows& rows, const kernels::WqWeights& weights, const float* bias,
                   const at::Tensor& dst);

}  // namespace cpuaccel::ops
