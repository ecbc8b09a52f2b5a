// Activations of 8-bit quantized tensors (sigmoid, tanh, gelu, elu ...), by lookup table.

#include "torch_ao/lookup_table.h"
#include "torch_ao/names.h"

namespace cpuaccel::torch_ao {
namespace {

template <typename T>
bool can_be_key(const T& /*argument*/) {
  return true;
}
// A symbolic or complex number cannot be part of a key.
bool can_be_key(const at::Scalar& value) { return is_real_number(value); }

// Strided operands are copied first: the result is dense, and torch's copy keeps runs together.
at::Tensor look_up(Op op, const at::Tensor& x, const LookupTable& table, at::MemoryFormat format) {
  const KernelCall kernel_call(op);
  const auto src = x.expect_contiguous(format);
  auto result = empty_quantized(x.sizes(), x.scalar_type(), table.scale, table.zero_point, format);
  kernels::lookup_table_u8(bytes(*src), mutable_bytes(result), x.numel(), table.entries.data());
  return result;
}

// torch gives the results of these ops the suggested memory format of their operand.
template <OpName kName, Op kOp, typename Source, typename... Arguments>
at::Tensor look_up_op(Source x, Arguments... arguments) {
  if (engine_is_replaced()) {
    const char* reason = lookup_table_fallback_reason(x);
    reason = reason == nullptr && !(can_be_key(arguments) && ...) ? reasons::kNotReal : reason;
    if (reason == nullptr) {
      return look_up(kOp, x, lookup_table_of(kName.text, x, arguments...),
                     x.suggest_memory_format());
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, x, arguments...).toTensor();
}

// torch gives the results of these ops the contiguous format, whatever their operand has.
template <OpName kName, Op kOp, typename... Arguments>
at::Tensor look_up_contiguous_op(const at::Tensor& x, Arguments... arguments) {
  if (engine_is_replaced()) {
    const char* reason = lookup_table_fallback_reason(x);
    reason = reason == nullptr && !(can_be_key(arguments) && ...) ? reasons::kNotReal : reason;
    if (reason == nullptr) {
      return look_up(kOp, x, lookup_table_of(kName.text, x, arguments...),
                     at::MemoryFormat::Contiguous);
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, x, arguments...).toTensor();
}

template <OpName kName, Op kOp>
at::Tensor& look_up_in_place_op(at::Tensor& x, const at::Scalar& argument) {
  if (engine_is_replaced()) {
    const char* reason = lookup_table_fallback_reason(x);
    reason = reason == nullptr && !x.is_non_overlapping_and_dense() ? reasons::kNotDense : reason;
    reason = reason == nullptr && !can_be_key(argument) ? reasons::kNotReal : reason;
    if (reason == nullptr) {
      const auto& table = lookup_table_of(kName.text, x, argument);
      const KernelCall kernel_call(kOp);
      kernels::lookup_table_u8(bytes(x), mutable_bytes(x), x.numel(), table.entries.data());
      return x;
    }
    report_fallback(kName.text, reason);
  }
  call_torch(kName.text, x, argument);
  return x;
}

template <OpName kName>
at::Tensor leaky_relu(at::Tensor x, const at::Scalar& negative_slope, bool inplace,
                      double output_scale, int64_t output_zero_point) {
  if (inplace) {  // torch warns that it does not run in place
    report_fallback(kName.text, reasons::kInPlace);
    return call_torch(kName.text, x, negative_slope, inplace, output_scale, output_zero_point)
        .toTensor();
  }
  return look_up_op<kName, Op::leaky_relu, const at::Tensor&, const at::Scalar&, bool, double,
                    int64_t>(x, negative_slope, inplace, output_scale, output_zero_point);
}

using Source = const at::Tensor&;
using Number = const at::Scalar&;

#define ROW(name, ...) CPUACCEL_OVERRIDE(name, c10::DispatchKey::QuantizedCPU, __VA_ARGS__)
CPUACCEL_OVERRIDES{
    ROW("aten::sigmoid", look_up_op, Op::sigmoid, Source),
    ROW("aten::tanh", look_up_op, Op::tanh, Source),
    ROW("aten::hardsigmoid", look_up_op, Op::hardsigmoid, Source),
    ROW("aten::gelu", look_up_op, Op::gelu, Source, std::string_view),
    ROW("aten::leaky_relu", look_up_op, Op::leaky_relu, Source, Number),
    ROW("aten::leaky_relu_", look_up_in_place_op, Op::leaky_relu),
    ROW("quantized::sigmoid", look_up_op, Op::sigmoid, at::Tensor, double, int64_t),
    ROW("quantized::hardswish", look_up_op, Op::hardswish, Source, double, int64_t),
    ROW("quantized::leaky_relu", leaky_relu),
    ROW("quantized::elu", look_up_contiguous_op, Op::elu, double, int64_t, Number, Number, Number),
    ROW("quantized::celu", look_up_contiguous_op, Op::elu, double, int64_t, Number),
};
#undef ROW

}  // namespace

}  // namespace cpuaccel::torch_ao
