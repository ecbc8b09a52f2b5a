#include "ops/overrides.h"

#include <array>

#include "ops/lists.h"

namespace cpuaccel::ops {

std::span<const std::span<const Override>> op_overrides() {
  static const std::array lists{
      attention_overrides(),
      autocast_overrides(),
      avg_pool_overrides(),
      batch_norm_overrides(),
      binary_overrides(),
      cat_overrides(),
      channel_shuffle_overrides(),
      clamp_overrides(),
      clone_overrides(),
      convolution_overrides(),
      coo_mm_overrides(),
      index_put_overrides(),
      int_mm_overrides(),
      matmul_overrides(),
      max_pool_overrides(),
      quantize_overrides(),
      scatter_add_overrides(),
      scatter_gradient_overrides(),
      scatter_reduce_overrides(),
      segment_reduce_overrides(),
      select_rows_overrides(),
      silu_overrides(),
      max_pool_f32_overrides(),
      mkldnn_linear_overrides(),
      sparse_mm_overrides(),
      sparse_mm_reduce_overrides(),
      table_overrides(),
      upsample_overrides(),
      mha_overrides(),
      mkldnn_lstm_overrides(),
  };
  return lists;
}

}  // namespace cpuaccel::ops
