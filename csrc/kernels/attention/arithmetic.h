// Matrix products of attention's blocks, in f32 or BF16 arithmetic, by the kernels of gemm and
// gemm_bf16.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {

// A block of a matrix in the caller's memory.
struct AttentionBlock {
  const void* data;
  DataType type;
  int64_t row_stride, column_stride;
  int64_t rows, columns;
};

class AttentionArithmetic {
 public:
  explicit AttentionArithmetic(bool bf16)
      : kernels_(first_usable(gemm_kernels()).function()),
        pairs_(bf16 ? &first_usable(gemm_bf16_kernels()).function() : nullptr) {}

  int64_t mr() const { return tile_kernels().mr; }

  // Floats of a packed row of a left operand with `depth` columns, and of a whole packed right
  // operand of `depth` rows and `columns` columns.
  int64_t left_stride(int64_t depth) const { return round_up(steps(depth), 16) + 16; }
  int64_t right_floats(int64_t depth, int64_t columns) const {
    return steps(depth) * round_up(columns, tile_kernels().nr);
  }

  struct Left {
    const float* data;
    int64_t stride;
  };
  // If the block cannot be used in place, it is packed into `to`, with rows left_stride(columns)
  // apart.
  Left left(const AttentionBlock& block, float* to) const {
    if (pairs_ == nullptr && block.type == DataType::f32 && block.column_stride == 1) {
      return {static_cast<const float*>(block.data), block.row_stride};
    }
    pack_left(block, to);
    return {to, left_stride(block.columns)};
  }

  void pack_left(const AttentionBlock& block, float* to) const {
    const int64_t stride = left_stride(block.columns);
    (pairs_ != nullptr ? pairs_->tile_rows : kernels_.load)(load_call(block, to, stride));
  }

  // Whether a packed left operand is rows of bf16 in their natural order, padded with zeros to a
  // multiple of bf16_together().
  bool takes_rows_of_bf16() const { return pairs_ != nullptr && pairs_->interleaved == 1; }
  int64_t bf16_together() const { return pairs_ != nullptr ? 2 * pairs_->together : 1; }

  void right(const AttentionBlock& block, float* panels) const {
    const auto function = pairs_ != nullptr ? pairs_->panels : kernels_.panels;
    function(load_call(block, panels, 0), tile_kernels().nr);
  }

  // c[m x columns] = (add ? c : 0) + left * right, of the first `depth` of `packed` rows of right
  struct Product {
    Left left;
    const float* right;
    int64_t rows, columns, depth, packed;
    float* c;
    int64_t c_stride;
    bool add;
  };
  void multiply(const Product& p) const {
    const GemmKernels& kernels = tile_kernels();
    const int64_t k = steps(p.depth), packed = steps(p.packed);
    for (int64_t n = 0; n < p.columns; n += kernels.nr) {
      const int64_t width = std::min(kernels.nr, p.columns - n);
      kernels.tile({.m = p.rows,
                    .n = width,
                    .k = k,
                    .a = p.left.data,
                    .a_stride = p.left.stride,
                    .panel = p.right + n * packed,
                    .type = DataType::f32,
                    .c = p.c + n,
                    .c_stride = p.c_stride,
                    .alpha = 1.0f,
                    .from = {p.add ? p.c + n : nullptr, p.c_stride},
                    .again = n != 0,
                    .next = {}});
    }
  }

  const GemmKernels& f32() const { return kernels_; }
  const GemmKernels& tile_kernels() const { return pairs_ != nullptr ? pairs_->pairs() : kernels_; }

 private:
  static LoadCall load_call(const AttentionBlock& block, float* to, int64_t stride) {
    return {
        block.data, block.type, block.row_stride, block.column_stride, block.rows, block.columns,
        to,         stride};
  }
  int64_t steps(int64_t depth) const { return pairs_ != nullptr ? pairs_->count(depth) : depth; }

  const GemmKernels& kernels_;
  const GemmBf16Kernels* pairs_;
};

}  // namespace cpuaccel::kernels
