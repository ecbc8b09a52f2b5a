// Declares the override list of each source file of csrc/ops; overrides.cpp gathers them.
#pragma once

#include <span>

#include "ops/override.h"

namespace cpuaccel::ops {

std::span<const Override> attention_overrides();
std::span<const Override> autocast_overrides();
std::span<const Override> avg_pool_overrides();
std::span<const Override> batch_norm_overrides();
std::span<const Override> binary_overrides();
std::span<const Override> cat_overrides();
std::span<const Override> channel_shuffle_overrides();
std::span<const Override> clamp_overrides();
std::span<const Override> clone_overrides();
std::span<const Override> convolution_overrides();
std::span<const Override> coo_mm_overrides();
std::span<const Override> index_put_overrides();
std::span<const Override> int_mm_overrides();
std::span<const Override> matmul_overrides();
std::span<const Override> max_pool_overrides();
std::span<const Override> max_pool_f32_overrides();
std::span<const Override> mkldnn_linear_overrides();
std::span<const Override> mha_overrides();
std::span<const Override> mkldnn_lstm_overrides();
std::span<const Override> quantize_overrides();
std::span<const Override> scatter_add_overrides();
std::span<const Override> scatter_gradient_overrides();
std::span<const Override> scatter_reduce_overrides();
std::span<const Override> segment_reduce_overrides();
std::span<const Override> select_rows_overrides();
std::span<const Override> silu_overrides();
std::span<const Override> sparse_mm_overrides();
std::span<const Override> sparse_mm_reduce_overrides();
std::span<const Override> table_overrides();
std::span<const Override> upsample_overrides();

}  // namespace cpuaccel::ops
