#include "ops/int8_product.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/core/DimVector.h>

#include "base/isa.h"
#include "kernels/gemm_w8/gemm_w8.h"
#include "kernels/quantize_by_row/quantize_by_row.h"
#include "ops/data_type.h"
#include "ops/quantized_rows.h"

namespace cpuaccel::ops {
namespace {

// A contiguous vector of `count` elements of `type`, of which `values` may have only one.
at::Tensor as_vector(const at::Tensor& values, int64_t count, at::ScalarType type) {
  const at::Tensor cast = values.detach().to(type);
  return cast.numel() == count ? cast.reshape({count}).contiguous()
                               : cast.reshape({1}).expand({count}).contiguous();
}

at::Tensor as_vector(const at::Tensor& values, at::ScalarType type) {
  return as_vector(values, values.numel(), type);
}

QuantizedRows rows_of(const Int8Linear& call, const at::Tensor& src) {
  kernels::QuantizeByRow quantize;
  quantize.symmetric = call.symmetric;
  quantize.low = static_cast<int32_t>(call.low);
  quantize.high = static_cast<int32_t>(call.high);
  quantize.mode = call.quantize == "row"      ? kernels::RowScales::of_each_row
                  : call.quantize == "tensor" ? kernels::RowScales::of_all_rows
                                              : kernels::RowScales::given;
  at::Tensor given_scales, given_zero_points;
  if (quantize.mode == kernels::RowScales::given) {
    given_scales = as_vector(*call.scale, at::kFloat);
    quantize.given = given_scales.numel();
    quantize.given_scales = given_scales.const_data_ptr<float>();
    if (call.zero_point) {
      given_zero_points = as_vector(*call.zero_point, quantize.given, at::kInt);
      quantize.given_zero_points = given_zero_points.const_data_ptr<int32_t>();
    }
  }
  return {src, quantize};
}

// Rows from which on torch's products of bf16 are faster than kernels/gemm_w8, which multiplies
// f32, where the CPU has instructions for bf16.
constexpr int64_t kManyRows = 32;

// What both kinds of products take: the input as a contiguous matrix, and vectors of f32.
struct Operands {
  at::Tensor src, weight_scales, bias;

  const float* scale_data() const { return weight_scales.const_data_ptr<float>(); }
  const float* bias_data() const { return bias.defined() ? bias.const_data_ptr<float>() : nullptr; }
};

const char* by_floats(const Int8Weight& weight, const Operands& operands,
                      const at::Tensor& result) {
  const at::Tensor& src = operands.src;
  if (src.size(0) >= kManyRows && src.scalar_type() == at::kBFloat16 && has_bf16_arithmetic()) {
    const at::Tensor sums = at::mm(src, weight.plain().to(at::kBFloat16).t()).to(at::kFloat);
    sums.mul_(operands.weight_scales);
    result.view(sums.sizes()).copy_(operands.bias.defined() ? sums.add_(operands.bias) : sums);
    return nullptr;
  }
  const auto weights = weight.packed();
  auto* row = kernels::gemm_w8_row(*weights);
  if (row == nullptr) {
    return "no kernel of this CPU for products of floats by int8";
  }
  kernels::GemmW8Call multiply;
  multiply.weights = weights.get();
  multiply.M = src.size(0);
  multiply.src = src.const_data_ptr();
  multiply.src_type = multiply.dst_type = data_type(src.scalar_type());
  multiply.src_stride = src.size(1);
  multiply.dst = result.mutable_data_ptr();
  multiply.scales = operands.scale_data();
  multiply.bias = operands.bias_data();
  kernels::gemm_w8(multiply, row);
  return nullptr;
}

const char* by_integers(const Int8Linear& call, const Int8Weight& weight, const Operands& operands,
                        const at::Tensor& result) {
  const auto weights = weight.packed();
  const QuantizedRows rows = rows_of(call, operands.src);
  // The kernel writes f32 or bf16.
  at::Tensor dst = result;
  if (result.scalar_type() == at::kHalf) {
    dst = at::detail::empty_cpu(result.sizes(), at::kFloat);
  }
  kernels::QgemmCall multiply;
  multiply.weights = weights.get();
  multiply.M = operands.src.size(0);
  multiply.src = {.data = rows.values.const_data_ptr(),
                  .type = kernels::QgemmSrcType::s8,
                  .row_stride = weights->K,
                  .zero_points = rows.zero_points.const_data_ptr<int32_t>(),
                  .scales = rows.scales.const_data_ptr<float>()};
  multiply.dst = {.data = dst.mutable_data_ptr(),
                  .type = data_type(dst.scalar_type()),
                  .row_stride = weights->N,
                  .scales = operands.scale_data(),
                  .bias = operands.bias_data()};
  const char* reason = kernels::qgemm(multiply);
  if (reason == nullptr && !dst.is_same(result)) {
    result.copy_(dst);
  }
  return reason;
}

}  // namespace

at::Tensor int8_product(const Int8Linear& call, const Int8Weight& weight, const char*& reason) {
  const int64_t N = weight.N, K = weight.K;
  at::DimVector sizes(call.input.sizes());
  sizes.back() = N;
  at::Tensor result = at::detail::empty_cpu(sizes, call.input.scalar_type());
  if (result.numel() == 0) {
    return result;
  }
  const bool biased = call.bias && call.bias->defined();
  const Operands operands{.src = call.input.contiguous().view({-1, K}),
                          .weight_scales = as_vector(call.weight_scale, N, at::kFloat),
                          .bias = biased ? as_vector(*call.bias, N, at::kFloat) : at::Tensor()};
  reason = call.quantize == "none" ? by_floats(weight, operands, result)
                                   : by_integers(call, weight, operands, result);
  return reason == nullptr ? result : at::Tensor();
}

Op counted_op(std::string_view quantize) {
  return quantize == "none"    ? Op::packed_linear
         : quantize == "given" ? Op::linear
                               : Op::linear_dynamic;
}

}  // namespace cpuaccel::ops
