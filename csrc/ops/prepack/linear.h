// Linear layers on packed weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/gemm/types.h"
#include "ops/prepack/packed_weight.h"

namespace cpuaccel::ops {

// The reason why packed_product cannot compute with these, or null. `mixed`: types may differ.
const char* packed_product_fallback_reason(const at::Tensor& input, const PackedView& view,
                                           const PackedShape& shape,
                                           const std::optional<at::Tensor>& bias, bool mixed);

// result[..., n] = after(bias[n] + sum over k of input[..., k] * weight[n, k]), of input's type.
// `view` is made from `packed` and `shape`.
at::Tensor packed_product(const at::Tensor& input, const at::Tensor& packed, const PackedView& view,
                          const PackedShape& shape, const std::optional<at::Tensor>& bias,
                          const kernels::GemmAfter& after);

}  // namespace cpuaccel::ops
