// Packed weights of a linear layer: the panels that family gemm reads, in a plain tensor.
//
// A tensor, not a custom class, so that torch copies, counts, shares, exports and traces it like
// any other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/gemm/packed.h"
#include "kernels/gemm_bf16/packed.h"
#include "kernels/gemm_wq/weights.h"
#include "kernels/qgemm/qgemm.h"

namespace cpuaccel::ops {

// Weights of out_features x in_features in panels of `panel` columns (12 to 192, depending on the
// ISA). The tensor is 1-d, of the weights' type. If it is int32, it holds pairs: bfloat16 as
// gemm_bf16 reads them.
struct PackedShape {
  int64_t panel;
  int64_t out_features;
  int64_t in_features;
};

// Columns of a panel for the ISA in use.
int64_t gemm_panel();

// The same and, on Arm, those of lesser ISAs, best first: panels of long vectors would pad some
// weights by much, and their peak is no higher.
std::vector<int64_t> gemm_panels();
std::vector<int64_t> pairs_panels();

// Whether weights of bfloat16, and those of float32 under fast math, are packed in pairs: on Arm
// with BFMMLA, where torch's own kernels pack them again in every call. On x86, oneDNN is as fast
// as cpuaccel's kernels without packing.
bool packs_pairs();

// Whether eager calls of cpuaccel's kernels cache packed weights: on Arm, for the same reason.
bool caches_eager_weights();

// Columns of a panel of pairs, and the pairs per column for that many features.
int64_t pairs_panel();
int64_t pairs_depth(int64_t in_features);

// Packs a matrix of in_features x out_features, of any strides, in panels for the ISA in use: of
// its own type, or in pairs (bfloat16, or float32, which is rounded).
at::Tensor pack_panels(const at::Tensor& matrix);
at::Tensor pack_pairs(const at::Tensor& matrix);

// A weight (out_features x in_features) packed for the ISA in use, in panels of its type or in
// pairs. It is made to be cached: it is valid outside of inference mode too.
struct CachedPackedWeight {
  at::Tensor values;
  int64_t panel = 0;
  // Instead of `values`, of an int8 weight.
  std::shared_ptr<const kernels::QgemmWeights> int8 = nullptr;
  // Or of weights with scales for groups.
  std::shared_ptr<const kernels::WqWeights> groups = nullptr;
};
int64_t panel_in_use(bool pairs);
CachedPackedWeight pack_for_cache(const at::Tensor& weight, bool pairs);

// `packed` as gemm takes it. The tensor must outlive the view. Throws if it does not fit `shape`.
class PackedView {
 public:
  PackedView(const char* op, const at::Tensor& packed, const PackedShape& shape);

  // For weights that are not pairs.
  kernels::GemmPacked take_weights() && { return std::move(*floats_); }

  // The weights if they are pairs, or null.
  const kernels::GemmBf16Packed* pairs() const { return pairs_ ? &*pairs_ : nullptr; }

  // The weights' type.
  at::ScalarType type() const { return type_; }

  // The reason why gemm cannot compute with it now, or null.
  const char* fallback_reason() const;

  // dst = src times the weights. src and dst have M rows, and dst is dense. For pairs, pass the
  // call to gemm_bf16(call, pairs).
  kernels::GemmCall product(int64_t M, const kernels::GemmMatrix& src, void* dst,
                            DataType dst_type) const;

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
