// When attention is family attention's, and in which arithmetic.
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

// By family attention, of operands that it takes; by torch's kernel.
AttentionResult own_attention(const AttentionOperands& of, bool is_causal,
                              std::optional<double> scale);
AttentionResult torch_attention(const AttentionOperands& of, double dropout_p, bool is_causal,
                                std::optional<double> scale);

// Why so many queries, multiplied in bf16 or in f32, are torch's kernel's on this CPU where nothing
// is timed, as in eager mode; null: they are not.
const char* why_no_attention(int64_t queries, bool bf16);
// Whether it is faster than torch's kernel for all sizes on this CPU. Plans time it on others.
bool attention_is_always_own();

// Whether products are to be of bf16 now, for queries of this type.
bool attention_in_bf16(kernels::GemmType query);

}  // namespace cpuaccel::ops
