// Weights of a linear layer in the panels that the kernels of gemm read, held by a plain tensor.
//
// A tensor, not an object of a class of ours: it is copied, counted, moved into shared memory,
// exported and traced as tensors are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/gemm/packed.h"

namespace cpuaccel::ops {

// Which weights: out_features x in_features, in panels of `panel` columns (16 or 32, as the
// instructions want it). The memory has one dimension and the weights' type.
struct PackedShape {
  int64_t panel;
  int64_t out_features;
  int64_t in_features;
};

// Columns of a panel for the instructions now in use.
int64_t gemm_panel();

// The row of gemm's list that panels are for.
struct PackedRow {
  kernels::GemmFunction* row;
  bool usable;
};

// `packed` as gemm takes it, which must live as long. Throws if it is not `shape`'s.
class PackedView {
 public:
  PackedView(const char* op, const at::Tensor& packed, const PackedShape& shape);

  kernels::GemmPacked take_weights() && { return std::move(weights_); }

  // Why gemm may not compute with it now, or null.
  const char* why_refused() const;

  // dst = src times the weights, both of M rows; dst's lie one behind the other.
  kernels::GemmCall product(int64_t M, const kernels::GemmMatrix& src, void* dst,
                            kernels::GemmType dst_type) const;

 private:
  PackedView(const char* op, const at::Tensor& packed, const PackedShape& shape,
             const PackedRow& row);

  bool usable_;
  kernels::GemmPacked weights_;
};

// The plain weight, bit for bit.
at::Tensor unpack_linear(const at::Tensor& packed, int64_t panel, int64_t out_features,
                         int64_t in_features);

}  // namespace cpuaccel::ops
