#include "ops/intx_product.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/DimVector.h>

#include "base/counters.h"
#include "kernels/gemm_wq/gemm_wq.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "ops/data_type.h"

namespace cpuaccel::ops {

at::Tensor intx_product(const at::Tensor& input, const kernels::WqWeights& weights,
                        const std::optional<at::Tensor>& bias, bool quantize) {
  at::DimVector sizes(input.sizes());
  sizes.back() = weights.N();
  at::Tensor result = at::detail::empty_cpu(sizes, input.scalar_type());
  calls().add(quantize ? Op::linear_dynamic : Op::packed_linear, Provider::cpuaccel);
  if (result.numel() == 0) {
    return result;
  }
  const at::Tensor src = input.contiguous().view({-1, weights.K()});
  const auto type = data_type(src.scalar_type());
  const bool biased = bias && bias->defined();
  const at::Tensor floats = biased ? bias->detach().to(at::kFloat).contiguous() : at::Tensor();
  const float* bias_data = biased ? floats.const_data_ptr<float>() : nullptr;
  if (!quantize) {
    kernels::gemm_wq(
        {.weights = &weights,
         .M = src.size(0),
         .src = src.const_data_ptr(),
         .src_type = type,
         .src_stride = src.size(1),
         .dst = {.data = result.mutable_data_ptr(), .type = type, .stride = weights.N()},
         .bias = bias_data});
    return result;
  }
  kernels::QuantizeByRow rounding;
  rounding.symmetric = false;
  multiply_rows(QuantizedRows(src, rounding), weights, bias_data, result);
  return result;
}

void multiply_rows(const QuantizedRows& rows, const kernels::WqWeights& weights, const float* bias,
                   const at::Tensor& dst) {
  kernels::qgemm_wq({.weights = &weights,
                     .M = rows.values.size(0),
                     .src = rows.values.const_data_ptr<int8_t>(),
                     .scales = rows.scales.const_data_ptr<float>(),
                     .zero_points = rows.zero_points.const_data_ptr<int32_t>(),
                     .dst = {.data = dst.mutable_data_ptr(),
                             .type = data_type(dst.scalar_type()),
                             .stride = weights.N()},
                     .bias = bias});
}

}  // namespace cpuaccel::ops
