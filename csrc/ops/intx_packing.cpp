#include "ops/intx_packing.h"

#include "kernels/gemm_wq/pack.h"
#include "ops/data_type.h"

namespace cpuaccel::ops {
namespace {

bool has_reals(const IntxCodes& from) {
  return from.zero_point && from.zero_point->is_floating_point();
}

}  // namespace

kernels::WqFormat packed_format(const IntxCodes& from) {
  kernels::WqFormat format;
  format.bits = from.bits;
  format.group = from.group();
  format.scales = data_type(from.scale.scalar_type());
  if (has_reals(from)) {
    // -zero * scale, of which a type of 16 bits would lose digits.
    format.scales = DataType::f32;
    format.zeros = kernels::WqZeros::reals;
  } else if (from.zero_point) {
    format.zeros = kernels::WqZeros::integers;
  }
  return format;
}

bool pack_codes(const IntxCodes& from, kernels::WqWeights& weights) {
  const at::Tensor codes = from.codes.detach().contiguous();
  const at::Tensor scales = from.scale.detach().to(at::kFloat).contiguous();
  const at::Tensor zeros = weights.format().zeros == kernels::WqZeros::none
                               ? at::Tensor()
                               : from.zero_point->detach().to(at::kFloat).contiguous();
  return kernels::pack_plain({.codes = codes.const_data_ptr<int8_t>(),
                              .n_stride = codes.size(1),
                              .scales = scales.const_data_ptr<float>(),
                              .zeros = zeros.defined() ? zeros.const_data_ptr<float>() : nullptr},
                             weights);
}

}  // namespace cpuaccel::ops
