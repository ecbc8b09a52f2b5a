// Weights of a linear layer in the panels that the kernels of gemm read, held by a plain tensor.
//
// A tensor, not an object of a class of ours: it is copied, counted, moved into shared memory,
// exported and traced as tensors are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/gemm/packed.h"
#include "kernels/gemm_bf16/packed.h"

namespace cpuaccel::ops {

// Which weights: out_features x in_features, in panels of `panel` columns (12 to 192, as the
// instructions want it). The memory has one dimension and the weights' type; of int32 it holds
// pairs, which are bfloat16 as gemm_bf16 reads them.
struct PackedShape {
  int64_t panel;
  int64_t out_features;
  int64_t in_features;
};

// Columns of a panel for the instructions now in use.
int64_t gemm_panel();

// The same and, on Arm, those of lesser instructions, best first: the panels of long vectors would
// pad some weights by much, and their peak is no higher.
std::vector<int64_t> gemm_panels();
std::vector<int64_t> pairs_panels();

// Whether weights of bfloat16 are packed in pairs, and those of float32 under fast math: on Arm
// with BFMMLA, where torch's own kernels pack them again in every call. On x86 oneDNN's are as fast
// as ours, without.
bool packs_pairs();

// Whether weights of eager calls of our kernels are kept packed: on Arm, for the same reason.
bool keeps_eager_weights();

// Columns of a panel of pairs, and pairs that weights of so many features take a column.
int64_t pairs_panel();
int64_t pairs_depth(int64_t in_features);

// A matrix of in_features x out_features, of any strides, in panels for the instructions now in
// use: of its type, or of float32 (which is rounded) or bfloat16 in pairs.
at::Tensor pack_panels(const at::Tensor& matrix);
at::Tensor pack_pairs(const at::Tensor& matrix);

// A weight (out_features x in_features) in panels of its type or in pairs, for the instructions now
// in use, that is to be kept: it serves outside of inference mode too.
struct KeptPacked {
  at::Tensor values;
  int64_t panel = 0;
};
int64_t kept_panel(bool pairs);
KeptPacked pack_to_keep(const at::Tensor& weight, bool pairs);

// `packed` as gemm takes it, which must live as long. Throws if it is not `shape`'s.
class PackedView {
 public:
  PackedView(const char* op, const at::Tensor& packed, const PackedShape& shape);

  // Of weights that are not pairs.
  kernels::GemmPacked take_weights() && { return std::move(*floats_); }

  // The weights if they are pairs, or null.
  const kernels::GemmBf16Packed* pairs() const { return pairs_ ? &*pairs_ : nullptr; }

  // The weights' type.
  at::ScalarType type() const { return type_; }

  // Why gemm may not compute with it now, or null.
  const char* why_refused() const;

  // dst = src times the weights, both of M rows; dst's lie one behind the other. Of pairs, it is
  // for gemm_bf16(call, pairs).
  kernels::GemmCall product(int64_t M, const kernels::GemmMatrix& src, void* dst,
                            kernels::GemmType dst_type) const;

 private:
  at::ScalarType type_;
  int64_t N_, K_;
  bool usable_ = false;
  std::optional<kernels::GemmPacked> floats_;
  std::optional<kernels::GemmBf16Packed> pairs_;
};

// The plain weight, bit for bit.
at::Tensor unpack_linear(const at::Tensor& packed, int64_t panel, int64_t out_features,
                         int64_t in_features);

}  // namespace cpuaccel::ops
