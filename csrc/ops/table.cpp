// Activations of 8-bit quantized tensors (sigmoid, tanh, gelu, elu ...), by lookup table.

#include <array>

#include "ops/by_table.h"
#include "ops/override.h"
#include "ops/reasons.h"

namespace cpuaccel::ops {
namespace {

template <typename T>
bool plain(const T& /*argument*/) {
  return true;
}
// A symbolic or complex number cannot be part of a key.
bool plain(const at::Scalar& value) {
  return !value.isSymbolic() && (value.isFloatingPoint() || value.isIntegral(true));
}

// Strided operands are copied first: the result is dense, and torch's copy keeps runs together.
at::Tensor run_table(Op op, const at::Tensor& x, const OpTable& table, at::MemoryFormat format) {
  const OwnCall own_call(op);
  const auto src = x.expect_contiguous(format);
  auto result = empty_quantized(x.sizes(), x.scalar_type(), table.scale, table.zero_point, format);
  kernels::table_u8(bytes(*src), mutable_bytes(result), x.numel(), table.entries.data());
  return result;
}

// torch gives the results of these ops the suggested memory format of their operand.
template <OpName kName, Op kOp, typename Source, typename... Arguments>
at::Tensor by_table(Source x, Arguments... arguments) {
  if (our_engine()) {
    const char* reason = table_fallback_reason(x);
    reason = reason == nullptr && !(plain(arguments) && ...) ? reasons::kNotReal : reason;
    if (reason == nullptr) {
      return run_table(kOp, x, table_of(kName.text, x, arguments...), x.suggest_memory_format());
    }
    count_refusal(kName.text, reason);
  }
  return call_torch(kName.text, x, arguments...).toTensor();
}

// torch gives the results of these ops the contiguous format, whatever their operand has.
template <OpName kName, Op kOp, typename... Arguments>
at::Tensor by_table_contiguous(const at::Tensor& x, Arguments... arguments) {
  if (our_engine()) {
    const char* reason = table_fallback_reason(x);
    reason = reason == nullptr && !(plain(arguments) && ...) ? reasons::kNotReal : reason;
    if (reason == nullptr) {
      return run_table(kOp, x, table_of(kName.text, x, arguments...), at::MemoryFormat::Contiguous);
    }
    count_refusal(kName.text, reason);
  }
  return call_torch(kName.text, x, arguments...).toTensor();
}

template <OpName kName, Op kOp>
at::Tensor& by_table_in_place(at::Tensor& x, const at::Scalar& argument) {
  if (our_engine()) {
    const char* reason = table_fallback_reason(x);
    reason = reason == nullptr && !x.is_non_overlapping_and_dense() ? reasons::kNotDense : reason;
    reason = reason == nullptr && !plain(argument) ? reasons::kNotReal : reason;
    if (reason == nullptr) {
      const auto& table = table_of(kName.text, x, argument);
      const OwnCall own_call(kOp);
      kernels::table_u8(bytes(x), mutable_bytes(x), x.numel(), table.entries.data());
      return x;
    }
    count_refusal(kName.text, reason);
  }
  call_torch(kName.text, x, argument);
  return x;
}

template <OpName kName>
at::Tensor leaky_relu(at::Tensor x, const at::Scalar& negative_slope, bool inplace,
                      double output_scale, int64_t output_zero_point) {
  if (inplace) {  // torch warns that it does not run in place
    count_refusal(kName.text, reasons::kInPlace);
    return call_torch(kName.text, x, negative_slope, inplace, output_scale, output_zero_point)
        .toTensor();
  }
  return by_table<kName, Op::leaky_relu, const at::Tensor&, const at::Scalar&, bool, double,
                  int64_t>(x, negative_slope, inplace, output_scale, output_zero_point);
}

using Source = const at::Tensor&;
using Number = const at::Scalar&;

#define ROW(name, ...) CPUACCEL_OVERRIDE(name, c10::DispatchKey::QuantizedCPU, __VA_ARGS__)
constexpr std::array kOverrides{
    ROW("aten::sigmoid", by_table, Op::sigmoid, Source),
    ROW("aten::tanh", by_table, Op::tanh, Source),
    ROW("aten::hardsigmoid", by_table, Op::hardsigmoid, Source),
    ROW("aten::gelu", by_table, Op::gelu, Source, std::string_view),
    ROW("aten::leaky_relu", by_table, Op::leaky_relu, Source, Number),
    ROW("aten::leaky_relu_", by_table_in_place, Op::leaky_relu),
    ROW("quantized::sigmoid", by_table, Op::sigmoid, at::Tensor, double, int64_t),
    ROW("quantized::hardswish", by_table, Op::hardswish, Source, double, int64_t),
    ROW("quantized::leaky_relu", leaky_relu),
    ROW("quantized::elu", by_table_contiguous, Op::elu, double, int64_t, Number, Number, Number),
    ROW("quantized::celu", by_table_contiguous, Op::elu, double, int64_t, Number),
};
#undef ROW
CPUACCEL_REGISTER_OVERRIDES(kOverrides);

}  // namespace

}  // namespace cpuaccel::ops
