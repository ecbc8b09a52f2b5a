// cpuaccel::packed_int8_linear: int8_linear with a weight that is held in packed form only.
//
//   pack_int8(weight) -> packed
//   unpack_int8(packed, out_features, in_features) -> weight
//   packed_int8_linear(input, packed, weight_scale, bias, out_features, quantize, symmetric, scale,
//                      zero_point, low, high)
//
// weight: int8, out_features x in_features. packed: uint8, a vector (kernels/qgemm/block.h), for
// CPUs like the one that packed it; others unpack it in each call. The other arguments are those of
// int8_linear.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "kernels/qgemm/qgemm.h"
#include "ops/int8_linear.h"

namespace cpuaccel::ops {

inline constexpr auto kPackedInt8Linear = "cpuaccel::packed_int8_linear";

struct PackedInt8Linear {
  const at::Tensor& input;
  const at::Tensor& packed;
  const at::Tensor& weight_scale;
  const std::optional<at::Tensor>& bias;
  int64_t out_features;
  std::string_view quantize;
  bool symmetric;
  const std::optional<at::Tensor>& scale;
  const std::optional<at::Tensor>& zero_point;
  int64_t low, high;

  // The same call with this weight.
  Int8Linear with(const at::Tensor& weight) const;
};

// The same formula by torch's ops, which have all derivatives and batching rules.
at::Tensor packed_int8_linear_by_torch(const PackedInt8Linear& call);

// The plain weight in `packed`.
at::Tensor unpacked_int8(const at::Tensor& packed);

}  // namespace cpuaccel::ops
