// Call and fallback counters behind cpuaccel.stats(): which provider ran each op, and the reasons
// for fallbacks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/api.h"

namespace cpuaccel {

// The counted ops, by their names in stats(); relu forms count under the op that they are fused
// with.
// clang-format off
#define CPUACCEL_COUNTED_OPS(op)                                                                   \
  /* quantized layers */                                                                           \
  op(linear) op(linear_dynamic) op(linear_leaky_relu) op(linear_tanh)                              \
  op(conv2d) op(conv3d) op(conv_transpose2d) op(conv_transpose3d)                                  \
  op(conv2d_add) op(conv_dynamic)                                                                  \
  /* quantized tensors */                                                                          \
  op(quantize) op(dequantize) op(requantize) op(add) op(mul) op(cat) op(clamp) op(relu)            \
  op(hardswish) op(hardsigmoid) op(sigmoid) op(tanh) op(leaky_relu) op(elu) op(silu) op(gelu)      \
  op(table) op(mean) op(adaptive_avg_pool2d) op(avg_pool2d) op(max_pool2d)                         \
  op(upsample_nearest2d) op(upsample_bilinear2d) op(channel_shuffle) op(batch_norm2d) op(clone)    \
  /* float layers and products */                                                                  \
  op(fp32_convolution) op(fused) op(mm) op(addmm) op(bmm) op(baddbmm)                              \
  op(packed_linear) op(packed_lstm) op(packed_convolution)                                         \
  /* graphs, and attention */                                                                      \
  op(sparse_mm) op(sparse_mm_reduce) op(sparse_mm_reduce_backward)                                 \
  op(scatter_add) op(index_add) op(gather) op(index_select) op(index)                              \
  op(scatter_reduce) op(scatter_reduce_backward) op(index_reduce) op(index_reduce_backward)        \
  op(segment_reduce) op(segment_reduce_backward) op(attention) op(index_put)                       \
  op(edge_sum) op(edge_dot) op(edge_extreme) op(edge_extreme_backward)                             \
  op(edge_sum_heads) op(edge_sum_heads_backward) op(edge_dot_heads)                                \
  op(edge_softmax) op(edge_softmax_backward) op(gat_alpha) op(gat_alpha_backward)                  \
  op(gatv2_scores) op(gatv2_scores_backward) op(edge_stats) op(edge_stats_backward)                \
  op(sort_edges) op(neighbor_sample)                                                               \
  op(embedding_bag) op(embedding_bag_backward) op(embedding_bag_weights_backward)                  \
  op(intx_embedding)                                                                               \
  /* others */                                                                                     \
  op(graph_region) op(int_mm) op(isin)
// clang-format on

enum class Op : int {
#define CPUACCEL_OP(name) name,
  CPUACCEL_COUNTED_OPS(CPUACCEL_OP)
#undef CPUACCEL_OP
      count_
};

// What computes an op. `cpuaccel` is a cpuaccel kernel (csrc/kernels); `intree` is torch's own
// kernel, called by a cpuaccel object.
enum class Provider : int { cpuaccel, onednn, fbgemm, intree, count_ };

CPUACCEL_API const char* op_name(Op op);
CPUACCEL_API const char* provider_name(Provider provider);

// Relaxed atomic counters, one per op and provider: cheap enough for every call.
class CPUACCEL_API CallCounters {
 public:
  void add(Op op, Provider provider) { at(op, provider).fetch_add(1, std::memory_order_relaxed); }
  // "conv2d.onednn" -> count; only counts that are not zero.
  std::map<std::string, int64_t> snapshot() const;
  void reset();

 private:
  static constexpr size_t kOps = static_cast<size_t>(Op::count_);
  static constexpr size_t kProviders = static_cast<size_t>(Provider::count_);
  std::atomic<int64_t>& at(Op op, Provider provider) {
    return counts_[static_cast<size_t>(op) * kProviders + static_cast<size_t>(provider)];
  }
  std::array<std::atomic<int64_t>, kOps * kProviders> counts_{};
};

CPUACCEL_API CallCounters& calls();
CPUACCEL_API CallCounters& prepacks();

// Fallbacks to torch's own kernel, counted under "op: reason" in a map under a lock. Each thread
// remembers counts that it used before, which need no lock.
CPUACCEL_API void count_fallback(std::string_view op, std::string_view reason);
CPUACCEL_API std::map<std::string, int64_t> fallbacks();

// Bytes of packed weights that cpuaccel objects hold now.
CPUACCEL_API std::atomic<int64_t>& packed_weight_bytes();

// Sets all counts to zero; packed_weight_bytes() keeps its value.
CPUACCEL_API void reset_counters();

}  // namespace cpuaccel
