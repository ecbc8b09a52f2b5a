// Flash attention of f32 under fast math: in bfloat16. Torch's own kernel multiplies block by block
// through oneDNN then, rounding both blocks each time, and takes twice as long as without fast
// math.

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_native.h>

#include <array>
#include <optional>
#include <tuple>

#include "base/isa.h"
#include "ops/lists.h"
#include "ops/matmul/fastmath.h"

namespace cpuaccel::ops {
namespace {

using Mask = std::optional<at::Tensor>;

bool all_float(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  return query.scalar_type() == at::kFloat && key.scalar_type() == at::kFloat &&
         value.scalar_type() == at::kFloat;
}

std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query, const at::Tensor& key,
                                             const at::Tensor& value, double dropout_p,
                                             bool is_causal, const Mask& attn_mask,
                                             std::optional<double> scale) {
  if (!all_float(query, key, value) || !fastmath_on() || !has_bf16_arithmetic()) {
    return at::native::_scaled_dot_product_flash_attention_cpu(query, key, value, dropout_p,
                                                               is_causal, attn_mask, scale);
  }
  // The mask stays: the lowest float, which is what masks are made of, would round to minus
  // infinity.
  auto [output, logsumexp] = at::native::_scaled_dot_product_flash_attention_cpu(
      to_bfloat16(query), to_bfloat16(key), to_bfloat16(value), dropout_p, is_causal, attn_mask,
      scale);
  return {output.to(at::kFloat), logsumexp};
}

constexpr std::array kOverrides{
    Override{"aten::_scaled_dot_product_flash_attention_for_cpu", c10::DispatchKey::CPU,
             as_cpp_function<&attention>},
};

}  // namespace

std::span<const Override> attention_overrides() { return kOverrides; }

}  // namespace cpuaccel::ops
