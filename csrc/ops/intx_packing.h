// Packs integer weights with scales for groups of k, as family gemm_wq reads them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "kernels/gemm_wq/weights.h"

namespace cpuaccel::ops {

// Integers and what they stand for; intx_linear.h has their shapes and types.
struct IntxCodes {
  const at::Tensor& codes;
  const at::Tensor& scale;
  const std::optional<at::Tensor>& zero_point;
  int64_t bits;

  int64_t group() const { return codes.size(1) / scale.size(1); }
};

// The format of the packed codes. Zero points of floats become reals.
kernels::WqFormat packed_format(const IntxCodes& from);

// Packs all panels of `weights`, which have the format. Returns false if a code or a zero point is
// out of the range of `bits`.
bool pack_codes(const IntxCodes& from, kernels::WqWeights& weights);

}  // namespace cpuaccel::ops
