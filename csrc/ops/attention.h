// Scaled dot-product attention: chooses between cpuaccel's kernel and torch's, and the arithmetic.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "kernels/gemm/types.h"

namespace cpuaccel::ops {

struct AttentionOperands {
  const at::Tensor &query, &key, &value;
  const std::optional<at::Tensor>& mask;
};
// The result, and the logsumexp.
using AttentionResult = std::tuple<at::Tensor, at::Tensor>;

// cpuaccel_attention runs cpuaccel's kernel (family attention), on operands that it takes.
// torch_attention runs torch's kernel.
AttentionResult cpuaccel_attention(const AttentionOperands& of, bool is_causal,
                                   std::optional<double> scale);
AttentionResult torch_attention(const AttentionOperands& of, double dropout_p, bool is_causal,
                                std::optional<double> scale);

// The reason for a fallback of attention with this many queries where nothing is timed, as in eager
// mode. `bf16`: products are in bf16, else in f32. Null: cpuaccel's kernel runs.
const char* attention_fallback_reason(int64_t queries, bool bf16);
// Whether cpuaccel's kernel is faster than torch's for all sizes on this CPU. Plans time both on
// other CPUs.
bool attention_is_always_faster();

// Whether products are computed in bf16 now, for queries of this type.
bool attention_in_bf16(DataType query);

}  // namespace cpuaccel::ops
