// cpuaccel::packed_intx_linear: intx_linear with a weight that is held in packed form only.
//
//   pack_intx(codes, scale, zero_point, bits) -> packed
//   unpack_intx(packed, out_features, in_features) -> (codes - zero_point) * scale, as f32
//   packed_intx_linear(input, packed, bias, out_features, quantize)
//
// The first takes what intx_linear takes, and scales of f32, bf16 or f16. packed: uint8, a vector;
// kernels/gemm_wq/header.h and weights.h describe its bytes, which are the same on all CPUs. Its
// size depends on the shapes and types alone: pass no zero_point if all are zero.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "kernels/gemm_wq/weights.h"

namespace cpuaccel::ops {

inline constexpr auto kPackedIntxLinear = "cpuaccel::packed_intx_linear";

struct PackedIntxLinear {
  const at::Tensor& input;
  const at::Tensor& packed;
  const std::optional<at::Tensor>& bias;
  int64_t out_features;
  bool quantize;
};

// The weights in `packed`, which outlives them. Throws if it is anything else, or if input, bias
// and out_features do not fit to it.
kernels::WqWeights weights_of(const PackedIntxLinear& call);

// The same formula by torch's ops, which have all derivatives and batching rules.
at::Tensor packed_intx_linear_by_torch(const PackedIntxLinear& call);

// The weight as `type`.
at::Tensor unpacked_intx(const at::Tensor& packed, at::ScalarType type);

}  // namespace cpuaccel::ops
