// aten::_native_multi_head_attention with a float mask, which nn.TransformerEncoderLayer's fast
// path calls. torch's kernel casts the mask to bool: each value other than 0 masks its key, even a
// finite one, which should be added to the score; and a row without a 0 becomes NaN. Masks of only
// 0 and -inf, with a 0 in each row, mean the same both ways and stay with torch. For other masks
// the result is computed as nn.MultiheadAttention does off the fast path: by linear and
// scaled_dot_product_attention.
#include <ATen/Dispatch.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "base/parallel.h"
#include "ops/override.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor>;

constexpr int64_t kGrain = 32768;  // elements of a mask that a thread reads in microseconds

// The mask types of nn.MultiheadAttention.merge_masks.
enum MaskType : int64_t { kAttention = 0, kPadding = 1, kMerged = 2 };

struct Projections {
  int64_t embed_dim, heads;
  at::Tensor qkv_weight, qkv_bias, weight, bias;
};

// The mask with each stored element once: broadcast dimensions get size 1.
at::Tensor stored(at::Tensor mask) {
  for (int64_t d = 0; d < mask.dim(); ++d) {
    if (mask.stride(d) == 0 && mask.size(d) > 1) {
      mask = mask.narrow(d, 0, 1);
    }
  }
  return mask.contiguous();
}

template <typename T>
bool is_boolean(const T* row, int64_t size) {
  int64_t open = 0, masked = 0;
  for (int64_t i = 0; i < size; ++i) {
    const auto value = static_cast<float>(row[i]);
    open += value == 0.0f ? 1 : 0;
    masked += value == -std::numeric_limits<float>::infinity() ? 1 : 0;
  }
  return open > 0 && open + masked == size;
}

// Whether each row has a 0, and all other values are -inf.
bool is_boolean(const at::Tensor& mask) {
  const at::Tensor dense = stored(mask);
  const int64_t size = dense.size(-1), rows = dense.numel() / size;
  std::atomic<bool> found = true;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, dense.scalar_type(), "mask_of_attention", [&] {
        const auto* numbers = dense.const_data_ptr<scalar_t>();
        const auto look = [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end && found.load(std::memory_order_relaxed); ++row) {
            if (!is_boolean(numbers + row * size, size)) {
              found.store(false, std::memory_order_relaxed);
            }
          }
        };
        parallel_for(0, rows, std::max<int64_t>(kGrain / size, 1), look);
      });
  return found;
}

// The mask in the shape of the scores: [batch, heads, queries, keys]. nullopt if its shape does not
// match its type: torch's kernel raises the error.
std::optional<at::Tensor> as_scores(const at::Tensor& mask, std::optional<int64_t> type, int64_t B,
                                    int64_t H, int64_t T) {
  const auto sizes = mask.sizes();
  if (type == kAttention && sizes == at::IntArrayRef({T, T})) {
    return mask.view({1, 1, T, T});
  }
  if (type == kPadding && sizes == at::IntArrayRef({B, T})) {
    return mask.view({B, 1, 1, T});
  }
  if (type == kMerged && sizes == at::IntArrayRef({B, H, T, T})) {
    return mask;
  }
  return std::nullopt;
}

bool is_self_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const Projections& by) {
  const int64_t D = by.embed_dim;
  return query.dim() == 3 && query.numel() > 0 && key.sizes() == query.sizes() &&
         value.sizes() == query.sizes() && query.size(2) == D && by.heads > 0 &&
         D % by.heads == 0 && by.qkv_weight.sizes() == at::IntArrayRef({3 * D, D}) &&
         by.qkv_bias.sizes() == at::IntArrayRef({3 * D});
}

Results by_other_ops(const std::array<at::Tensor, 3>& inputs, const Projections& by,
                     const at::Tensor& mask, bool need_weights, bool average) {
  const int64_t B = inputs[0].size(0), T = inputs[0].size(1), E = by.embed_dim / by.heads;
  const auto weights = by.qkv_weight.chunk(3), biases = by.qkv_bias.chunk(3);
  std::array<at::Tensor, 3> projected;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor x = at::linear(inputs[i], weights[i], biases[i]);
    projected[i] = x.view({B, T, by.heads, E}).transpose(1, 2);
  }
  const auto& [q, k, v] = projected;
  const at::Tensor added = mask.to(q.scalar_type());
  at::Tensor context, attention;
  if (need_weights) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(E));
    attention = at::softmax(at::matmul(q.mul(scale), k.transpose(-2, -1)).add(added), -1);
    context = at::matmul(attention, v);
    attention = average ? attention.mean(1) : attention;
  } else {
    context = at::scaled_dot_product_attention(q, k, v, added);
  }
  const at::Tensor joined = context.transpose(1, 2).reshape({B, T, by.embed_dim});
  return {at::linear(joined, by.weight, by.bias), attention};
}

template <OpName kName>
Results native_multi_head_attention(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, int64_t embed_dim, int64_t num_head,
                                    const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                    const at::Tensor& proj_weight, const at::Tensor& proj_bias,
                                    const std::optional<at::Tensor>& mask, bool need_weights,
                                    bool average_attn_weights, std::optional<int64_t> mask_type) {
  const Projections by{embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias};
  if (mask.has_value() && mask->defined() && mask->is_floating_point() &&
      is_self_attention(query, key, value, by)) {
    const auto scores = as_scores(*mask, mask_type, query.size(0), num_head, query.size(1));
    if (scores.has_value() && !is_boolean(*scores)) {
      report_fallback(kName.text,
                      "a float mask has values other than 0 and -inf, or rows of -inf,"
                      " so linear and scaled_dot_product_attention compute it");
      return by_other_ops({query, key, value}, by, *scores, need_weights, average_attn_weights);
    }
  }
  torch::jit::Stack stack;
  torch::jit::push(stack, query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight,
                   proj_bias, mask, need_weights, average_attn_weights, mask_type);
  torch_kernel(kName.text).call(stack);
  return {stack.at(0).toTensor(), stack.at(1).toTensor()};
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::_native_multi_head_attention", c10::DispatchKey::CPU,
                      native_multi_head_attention),
};

}  // namespace

}  // namespace cpuaccel::ops
