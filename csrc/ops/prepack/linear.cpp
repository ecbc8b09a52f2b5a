// cpuaccel::packed_linear: linear with packed weights, of which no plain copy exists.
//
//   result[..., n] = bias[n] + sum over k of input[..., k] * weight[n, k]
//
// weight: out_features x in_features, packed by pack_linear. dtype: none (input, weight and bias
// have one type, which is the result's), or that of autocast: input and result have it, the others
// may have any floating type. Sums are f32. Other inputs fall back to torch's linear on the
// unpacked weight, which raises the error if there is one.

#include <ATen/EmptyTensor.h>
#include <ATen/ops/linear.h>
#include <torch/library.h>

#include <optional>

#include "base/isa.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "ops/data_type.h"
#include "ops/kernel_call.h"
#include "ops/matmul/fastmath.h"
#include "ops/prepack/linear.h"
#include "ops/prepack/packed_weight.h"
#include "ops/tensor_cache.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kPackedLinear = "cpuaccel::packed_linear";

bool usual_bias(const at::Tensor& bias, const PackedShape& shape, at::ScalarType type, bool mixed) {
  const auto found = bias.scalar_type();
  return bias.device().is_cpu() && bias.layout() == at::kStrided && !bias.is_neg() &&
         bias.dim() == 1 && bias.size(0) == shape.out_features &&
         (found == type || (mixed && is_gemm_type(found)));
}

at::Tensor packed_linear_by_torch(const at::Tensor& input, const at::Tensor& packed,
                                  const PackedShape& shape, std::optional<at::Tensor> bias,
                                  std::optional<at::ScalarType> dtype) {
  at::Tensor weight = unpack_linear(packed, shape.panel, shape.out_features, shape.in_features);
  if (dtype) {
    weight = weight.to(*dtype);
    if (bias && bias->defined()) {
      bias = bias->to(*dtype);
    }
  }
  return at::linear(input, weight, bias);
}

// Packed f32 weights, rounded and packed in pairs; cached as long as `packed` lives.
at::Tensor cached_pairs(const at::Tensor& packed, const PackedShape& shape) {
  return weight_cache().get(
      {}, kPairsForm + pairs_panel(),
      [&] {
        const auto plain =
            unpack_linear(packed, shape.panel, shape.out_features, shape.in_features);
        return pack_pairs(plain.t());
      },
      &packed);
}

// Runs in BF16 arithmetic under fast math, and under autocast to bfloat16.
void run(const kernels::GemmCall& call, const PackedView& view, const at::Tensor& packed,
         const PackedShape& shape) {
  if (const auto* pairs = view.pairs()) {
    kernels::gemm_bf16(call, *pairs);
    return;
  }
  const bool asked = call.a.type == DataType::bf16 ? call.packed->type() == DataType::f32
                                                   : call.a.type == DataType::f32 && fastmath_on();
  if (asked && packs_pairs()) {
    const at::Tensor rounded = cached_pairs(packed, shape);
    const PackedView rounded_view(kPackedLinear, rounded,
                                  {pairs_panel(), shape.out_features, shape.in_features});
    kernels::gemm_bf16(call, *rounded_view.pairs());
  } else if (asked && has_bf16_arithmetic() && call.M > kernels::kGemmBf16Few) {
    kernels::gemm_bf16(call);
  } else {
    kernels::gemm(call);
  }
}

at::Tensor packed_linear(const at::Tensor& input, const at::Tensor& packed, int64_t panel,
                         int64_t out_features, int64_t in_features,
                         const std::optional<at::Tensor>& bias,
                         std::optional<at::ScalarType> dtype) {
  const PackedShape shape{panel, out_features, in_features};
  const PackedView view(kPackedLinear, packed, shape);
  TORCH_CHECK(!dtype || input.scalar_type() == *dtype, kPackedLinear,
              ": expected input to be of dtype ", dtype.value_or(at::kFloat), ", but got ",
              input.scalar_type());
  if (const char* reason =
          packed_product_fallback_reason(input, view, shape, bias, dtype.has_value())) {
    report_fallback("packed_linear", reason);
    return packed_linear_by_torch(input, packed, shape, bias, dtype);
  }
  return packed_product(input, packed, view, shape, bias, {});
}

}  // namespace

const char* packed_product_fallback_reason(const at::Tensor& input, const PackedView& view,
                                           const PackedShape& shape,
                                           const std::optional<at::Tensor>& bias, bool mixed) {
  if (const char* reason = view.fallback_reason()) {
    return reason;
  }
  if (input.layout() != at::kStrided || !input.device().is_cpu() || input.is_neg() ||
      input.dim() == 0 || input.size(-1) != shape.in_features) {
    return "unsupported shape or layout of input";
  }
  if (!mixed && input.scalar_type() != view.type()) {
    return "input and packed weight differ in dtype";
  }
  if (bias && bias->defined() && !usual_bias(*bias, shape, input.scalar_type(), mixed)) {
    return "unsupported shape or dtype of bias";
  }
  return nullptr;
}

at::Tensor packed_product(const at::Tensor& input, const at::Tensor& packed, const PackedView& view,
                          const PackedShape& shape, const std::optional<at::Tensor>& bias,
                          const kernels::GemmAfter& after) {
  CPUACCEL_KERNEL_CALL(packed_linear);
  at::DimVector sizes(input.sizes());
  sizes.back() = shape.out_features;
  at::Tensor dst = at::detail::empty_cpu(sizes, input.scalar_type());
  if (dst.numel() == 0) {
    return dst;
  }
  const at::Tensor src = input.dim() == 2 ? input : input.reshape({-1, shape.in_features});
  const at::Tensor row = bias && bias->defined() ? bias->contiguous() : at::Tensor();
  const auto type = data_type(src.scalar_type());
  auto call =
      view.product(src.size(0), {src.const_data_ptr(), type, src.stride(0), src.stride(1), 0},
                   dst.mutable_data_ptr(), type);
  if (row.defined()) {
    call.bias = {row.const_data_ptr(), data_type(row.scalar_type()), kernels::GemmBiasAxis::n};
  }
  call.after = after;
  run(call, view, packed, shape);
  return dst;
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "packed_linear(Tensor input, Tensor packed, int panel, int out_features, int in_features, "
      "Tensor? bias, ScalarType? dtype=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("packed_linear", packed_linear); }

}  // namespace cpuaccel::ops
