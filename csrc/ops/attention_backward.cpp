// The gradient of flash attention of 16-bit tensors, computed in f32: torch's kernel multiplies
// block by block in 16 bits, which takes 1.8 to 11 times as long. Other gradients are torch's. The
// forward pass: attention.cpp.
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "base/isa.h"
#include "ops/conv_shape.h"
#include "ops/override.h"
#include "ops/torch_compat/cpu_kernels.h"

namespace cpuaccel::ops {
namespace {

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Below this many multiply-adds, the casts take longer than they save: 0.7 to 0.9 times torch's
// speed with 512.
constexpr int64_t kLeastWork = 1 << 16;

// Where the CPU has faster arithmetic than that of f32, torch uses it. f16 in AVX512-FP16 was
// measured 1.8 times as slow as f32 (Emerald Rapids without AMX).
bool is_faster_in_float(at::ScalarType type) {
  return (type == at::kBFloat16 && !has_bf16_arithmetic()) ||
         (type == at::kHalf && !has_amx_arithmetic());
}

Gradients attention_backward(const at::Tensor& grad_out, const at::Tensor& query,
                             const at::Tensor& key, const at::Tensor& value, const at::Tensor& out,
                             const at::Tensor& logsumexp, double dropout_p, bool is_causal,
                             const std::optional<at::Tensor>& attn_mask,
                             std::optional<double> scale) {
  const auto type = query.scalar_type();
  const bool in_float = is_faster_in_float(type) && key.dim() == 4 &&
                        query.numel() * key.size(2) >= kLeastWork && dense_of(grad_out, type) &&
                        dense_of(query, type) && dense_of(key, type) && dense_of(value, type) &&
                        dense_of(out, type);
  if (!in_float) {
    return at::native::_scaled_dot_product_flash_attention_cpu_backward(
        grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale);
  }
  const bool masked = attn_mask && attn_mask->defined();
  const auto mask = masked ? std::optional(attn_mask->to(at::kFloat)) : std::nullopt;
  const auto [query_grad, key_grad, value_grad] =
      at::native::_scaled_dot_product_flash_attention_cpu_backward(
          grad_out.to(at::kFloat), query.to(at::kFloat), key.to(at::kFloat), value.to(at::kFloat),
          out.to(at::kFloat), logsumexp, dropout_p, is_causal, mask, scale);
  return {query_grad.to(type), key_grad.to(type), value_grad.to(type)};
}

CPUACCEL_OVERRIDES{
    Override{"aten::_scaled_dot_product_flash_attention_for_cpu_backward", c10::DispatchKey::CPU,
             as_cpp_function<&attention_backward>},
};

}  // namespace
}  // namespace cpuaccel::ops
