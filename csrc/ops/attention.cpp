// Flash attention, forward: overrides aten::_scaled_dot_product_flash_attention_for_cpu, which
// scaled_dot_product_attention and torch's transformer layers call.
//
// bf16 is multiplied in BF16 arithmetic, and so is f32 under fast math. torch computes the
// gradient, from the logsumexp returned here.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/amx.h"
#include "base/isa.h"
#include "kernels/attention/attention.h"
#include "ops/attention.h"
#include "ops/data_type.h"
#include "ops/kernel_call.h"
#include "ops/learning.h"
#include "ops/matmul/fastmath.h"
#include "ops/override.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

using Mask = std::optional<at::Tensor>;
using Result = AttentionResult;
using Operands = AttentionOperands;

// CPUs where cpuaccel's attention was measured against torch's kernel, and the number of queries
// from which on it was faster, for each arithmetic.
struct Measured {
  bool (*is_here)();
  int64_t bf16_queries, f32_queries;
};
constexpr std::array kMeasured{
    Measured{[] { return cpu_vendor() == "AuthenticAMD"; }, 1, 1},
    // A Xeon: 1.2 to 3.5 (bf16) and 1.0 to 1.3 (f32) times as fast from there on; 0.4 to 1.6 with
    // fewer queries.
    Measured{amx_tiles_usable, 8, 16},
    // Emerald Rapids without AMX: 1.0 to 3.5 (bf16) and 1.0 to 1.8 (f32) times as fast, by
    // time_attention of the module _C. Exceptions are 7 and 8 queries in f32 (0.84 to 1.09), and
    // bf16 with a mask and 16 or 32 keys (0.77 to 1.37).
    Measured{[] {
               return cpu_vendor() == "GenuineIntel" && isa_usable(Isa::avx512_vnni) &&
                      !has_amx_arithmetic();
             },
             1, 1},
};

// Suggested elsewhere on x86: the most queries of all rows. Calls learn which kernel is faster.
constexpr Measured kElsewhere{[] { return true; }, 8, 16};

// Null: this CPU was not measured.
const Measured* measured_here() {
  const auto* const found = std::ranges::find_if(
      kMeasured, [](const Measured& cpu) { return isa_usable(Isa::avx2) && cpu.is_here(); });
  return found != kMeasured.end() ? found : nullptr;
}

// Whether the mask broadcasts to N x H x L x S.
bool broadcasts(const at::Tensor& mask, const at::Tensor& query, const at::Tensor& key) {
  const std::array<int64_t, 4> to{query.size(0), query.size(1), query.size(2), key.size(2)};
  const auto first = static_cast<size_t>(4 - mask.dim());
  for (size_t i = first; i < 4; ++i) {
    const int64_t size = mask.size(static_cast<int64_t>(i - first));
    if (size != to[i] && size != 1) {
      return false;
    }
  }
  return true;
}

bool is_plain(const at::Tensor& x) {
  return x.layout() == at::kStrided && x.dim() == 4 && x.numel() > 0;
}

// Whether heads of keys, or values, serve the same number of heads of queries each.
bool serves_heads(const at::Tensor& query, const at::Tensor& key) {
  return query.size(0) == key.size(0) && query.size(1) % key.size(1) == 0 &&
         query.size(3) == key.size(3);
}

// The reason why cpuaccel's kernel cannot compute it, or null.
const char* unsupported_reason(const Operands& of, double dropout_p) {
  const auto& [query, key, value, mask] = of;
  const at::ScalarType type = query.scalar_type();
  if (key.scalar_type() != type || value.scalar_type() != type) {
    return "query, key and value have different dtypes";
  }
  // Arm's cores multiply float16 faster than float32.
  const bool widens_half = isa_usable(Isa::avx2) || !has_fp16_arithmetic();
  if (type != at::kFloat && type != at::kBFloat16 && (type != at::kHalf || !widens_half)) {
    return "dtype is neither float32 nor bfloat16";
  }
  if (!is_plain(query) || !is_plain(key) || !is_plain(value) || dropout_p != 0.0 ||
      !serves_heads(query, key) || !serves_heads(query, value) || key.sizes() != value.sizes()) {
    return "unsupported shapes or dropout";
  }
  if (query.stride(3) != 1) {
    return "last dimension of query is strided";
  }
  if (query.size(2) <= kernels::kAttentionFewQueries &&
      (key.stride(3) != 1 || value.stride(3) != 1)) {
    return "last dimension of keys or values is strided, with fewer than 8 queries";
  }
  if (mask && (mask->layout() != at::kStrided || (mask->dim() != 2 && mask->dim() != 4) ||
               (mask->scalar_type() != at::kFloat && mask->scalar_type() != type) ||
               !broadcasts(*mask, query, key))) {
    return "unsupported mask dtype or shape";
  }
  return nullptr;
}

kernels::AttentionMatrix matrix(const at::Tensor& x) {
  return {x.const_data_ptr(), data_type(x.scalar_type()), x.stride(0), x.stride(1), x.stride(2),
          x.stride(3)};
}

kernels::AttentionMatrix mask_matrix(const at::Tensor& mask) {
  const int64_t dims = mask.dim();
  const auto stride = [&](int64_t i) {
    const int64_t dim = i - 4 + dims;
    return dim < 0 || mask.size(dim) == 1 ? 0 : mask.stride(dim);
  };
  return {mask.const_data_ptr(),
          data_type(mask.scalar_type()),
          stride(0),
          stride(1),
          stride(2),
          stride(3)};
}

kernels::AttentionDst dst_of(const at::Tensor& x) {
  return {x.mutable_data_ptr(), data_type(x.scalar_type()), x.stride(0), x.stride(1), x.stride(2)};
}

}  // namespace

AttentionResult cpuaccel_attention(const AttentionOperands& of, bool is_causal,
                                   std::optional<double> scale) {
  const auto& [query, key, value, mask] = of;
  // Both have the strides of torch's results: dst those of the query, logsumexp is N x L x H in
  // memory.
  const at::Tensor dst = at::empty_like(query);
  const int64_t N = query.size(0), H = query.size(1), L = query.size(2);
  const at::Tensor logsumexp = at::detail::empty_strided_cpu({N, H, L}, {L * H, 1, H}, at::kFloat);
  kernels::AttentionCall call;
  call.N = N;
  call.H = H;
  call.L = L;
  call.S = key.size(2);
  call.E = query.size(3);
  call.group = query.size(1) / key.size(1);
  call.query = matrix(query);
  call.key = matrix(key);
  call.value = matrix(value);
  if (mask) {
    call.mask = mask_matrix(*mask);
  }
  call.dst = dst_of(dst);
  call.logsumexp = dst_of(logsumexp);
  call.scale = static_cast<float>(scale.value_or(1.0 / std::sqrt(static_cast<double>(call.E))));
  call.causal = is_causal;
  call.bf16 = attention_in_bf16(call.query.type);
  kernels::attention(call);
  return {dst, logsumexp};
}

AttentionResult torch_attention(const AttentionOperands& of, double dropout_p, bool is_causal,
                                std::optional<double> scale) {
  const auto& [query, key, value, mask] = of;
  const bool all_float = query.scalar_type() == at::kFloat && key.scalar_type() == at::kFloat &&
                         value.scalar_type() == at::kFloat;
  if (!all_float || !fastmath_on() || !has_bf16_arithmetic()) {
    return at::native::_scaled_dot_product_flash_attention_cpu(query, key, value, dropout_p,
                                                               is_causal, mask, scale);
  }
  // Under fast math, torch's kernel multiplies block by block through oneDNN, which rounds both
  // blocks each time. Operands rounded beforehand take half the time. The mask is not rounded:
  // masks hold the lowest float, which would round to minus infinity.
  auto [dst, logsumexp] = at::native::_scaled_dot_product_flash_attention_cpu(
      to_bfloat16(query), to_bfloat16(key), to_bfloat16(value), dropout_p, is_causal, mask, scale);
  return {dst.to(at::kFloat), logsumexp};
}

namespace {

enum Candidate : int8_t { kTorchAttention, kCpuaccelAttention };

// The candidate for these sizes, learned on CPUs that were not measured.
Learned attention_candidate(const Operands& of, bool is_causal, double work, bool in_bf16,
                            Candidate suggested) {
  if (measured_here() != nullptr) {
    return {suggested};
  }
  const int flags = (of.mask ? 1 : 0) | (is_causal ? 2 : 0) | (in_bf16 ? 4 : 0);
  const std::array<int8_t, 2> candidates{
      suggested, suggested == kTorchAttention ? kCpuaccelAttention : kTorchAttention};
  const at::IntArrayRef q = of.query.sizes();
  return learned(LearnedOp::attention, of.query.scalar_type(), flags,
                 {q[0], q[1], q[2], q[3], of.key.size(2)}, work, candidates);
}

Result attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                 double dropout_p, bool is_causal, const Mask& attn_mask,
                 std::optional<double> scale) {
  const Operands operands{query, key, value, attn_mask};
  const auto by = [&](int candidate, bool is_probe) {
    if (candidate == kTorchAttention) {
      return torch_attention(operands, dropout_p, is_causal, scale);
    }
    std::optional<KernelCall> counted;
    if (!is_probe) {
      counted.emplace(Op::attention);
    }
    return cpuaccel_attention(operands, is_causal, scale);
  };
  if (const char* reason = unsupported_reason(operands, dropout_p)) {
    report_fallback(op_name(Op::attention), reason);
    return by(kTorchAttention, false);
  }
  const bool in_bf16 = attention_in_bf16(data_type(query.scalar_type()));
  // In f32 arithmetic, cpuaccel's kernel for 16 bits is 1.1 to 9 times as fast as torch's, the most
  // with one query (Emerald Rapids capped at AVX2). In AVX512-FP16, torch's takes 1.3 to 1.8 times
  // as long as for f32.
  const bool widened = query.scalar_type() != at::kFloat && !in_bf16 && isa_usable(Isa::avx2);
  const char* reason = widened ? nullptr : attention_fallback_reason(query.size(2), in_bf16);
  const Candidate suggested = reason != nullptr ? kTorchAttention : kCpuaccelAttention;
  const double work = 2.0 * static_cast<double>(query.numel()) * static_cast<double>(key.size(2));
  const auto [runs, open] = attention_candidate(operands, is_causal, work, in_bf16, suggested);
  if (open != nullptr) {
    return learn(*open, suggested, work, 0.0, by);
  }
  if (runs == kTorchAttention) {
    report_fallback(op_name(Op::attention),
                    suggested == kTorchAttention ? reason : "torch's kernel was faster here");
  }
  return by(runs, false);
}

CPUACCEL_OVERRIDES{
    Override{"aten::_scaled_dot_product_flash_attention_for_cpu", c10::DispatchKey::CPU,
             as_cpp_function<&attention>},
};

}  // namespace

const char* attention_fallback_reason(int64_t queries, bool bf16) {
  const Measured* const here = measured_here();
  const Measured* const cpu = here == nullptr && isa_usable(Isa::avx2) ? &kElsewhere : here;
  return cpu == nullptr ? "not measured on this CPU"
         : queries < (bf16 ? cpu->bf16_queries : cpu->f32_queries)
             ? "torch's kernel is faster with so few queries"
             : nullptr;
}

bool attention_is_always_faster() {
  const Measured* const cpu = measured_here();
  return cpu != nullptr && cpu->bf16_queries <= 1 && cpu->f32_queries <= 1;
}

bool attention_in_bf16(DataType query) {
  return has_bf16_arithmetic() &&
         (query == DataType::bf16 || (query == DataType::f32 && fastmath_on()));
}

}  // namespace cpuaccel::ops
