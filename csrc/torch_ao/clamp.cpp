// relu, relu6, hardtanh and clamp of quantized tensors.

#include "kernels/clamp/clamp.h"

#include <optional>
#include <utility>

#include "torch_ao/elementwise.h"
#include "torch_ao/names.h"
#include "torch_ao/torch_compat.h"

namespace cpuaccel::torch_ao {
namespace {

using OptionalScalar = std::optional<at::Scalar>;

// Limits as bytes of the tensor's type.
struct Limits {
  uint8_t low, high;
};

Limits no_limits(const at::Tensor& x) {
  return x.scalar_type() == at::kQUInt8 ? Limits{0x00, 0xff} : Limits{0x80, 0x7f};
}

// A real number as torch's clamp sees it: quantized like an element of the tensor.
uint8_t quantized(const at::Tensor& x, const at::Scalar& value) {
  const PerTensor q = per_tensor(x);
  const auto number = value.to<float>();
  return x.scalar_type() == at::kQUInt8
             ? at::native::quantize_val<c10::quint8>(q.scale, q.zero_point, number).val_
             : static_cast<uint8_t>(
                   at::native::quantize_val<c10::qint8>(q.scale, q.zero_point, number).val_);
}

Limits limits_of(const at::Tensor& x, const OptionalScalar& low, const OptionalScalar& high) {
  Limits limits = no_limits(x);
  if (low) {
    limits.low = quantized(x, *low);
  }
  if (high) {
    limits.high = quantized(x, *high);
  }
  return limits;
}

Limits at_least_zero(const at::Tensor& x) {
  Limits limits = no_limits(x);
  limits.low = static_cast<uint8_t>(per_tensor(x).zero_point);
  return limits;
}

bool is_absent_or_real_number(const OptionalScalar& value) {
  return !value || is_real_number(*value);
}

const char* numbers_fallback_reason(const OptionalScalar& low, const OptionalScalar& high) {
  if (!low && !high) {
    return reasons::kInvalidArguments;
  }
  return is_absent_or_real_number(low) && is_absent_or_real_number(high) ? nullptr
                                                                         : reasons::kNotReal;
}

void limit(const at::Tensor& src, at::Tensor& dst, Limits limits) {
  const uint8_t* from = bytes(src);
  uint8_t* to = mutable_bytes(dst);
  if (src.scalar_type() == at::kQUInt8) {
    kernels::clamp_u8(from, to, src.numel(), limits.low, limits.high);
  } else {
    kernels::clamp_s8(reinterpret_cast<const int8_t*>(from), reinterpret_cast<int8_t*>(to),
                      src.numel(), static_cast<int8_t>(limits.low),
                      static_cast<int8_t>(limits.high));
  }
}

at::Tensor limited(Op op, const at::Tensor& x, Limits limits) {
  const KernelCall kernel_call(op);
  const auto format = x.suggest_memory_format();
  const bool dense = x.is_contiguous(format);
  auto result = dense ? empty_quantized_as(x, x.sizes(), format) : x.contiguous(format);
  limit(dense ? x : result, result, limits);
  return result;
}

void limit_in_place(Op op, at::Tensor& x, Limits limits) {
  const KernelCall kernel_call(op);
  limit(x, x, limits);
}

template <OpName kName>
at::Tensor relu(const at::Tensor& x) {
  if (engine_is_replaced()) {
    const char* reason = eight_bit_fallback_reason(x);
    if (reason == nullptr) {
      return limited(Op::relu, x, at_least_zero(x));
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, x).toTensor();
}

template <OpName kName>
at::Tensor& relu_in_place(at::Tensor& x) {
  if (engine_is_replaced()) {
    const char* reason = eight_bit_fallback_reason(x);
    reason = reason == nullptr && !x.is_non_overlapping_and_dense() ? reasons::kNotDense : reason;
    if (reason == nullptr) {
      limit_in_place(Op::relu, x, at_least_zero(x));
      return x;
    }
    report_fallback(kName.text, reason);
  }
  call_torch(kName.text, x);
  return x;
}

template <OpName kName>
at::Tensor relu6(at::Tensor x, bool inplace) {
  if (engine_is_replaced()) {
    const char* reason = inplace ? reasons::kInPlace : eight_bit_fallback_reason(x);
    if (reason == nullptr) {
      return limited(Op::clamp, x, limits_of(x, 0.0, 6.0));
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, x, inplace).toTensor();
}

template <OpName kName, typename Low>
at::Tensor clamp(const at::Tensor& x, const Low& low, const Low& high) {
  if (engine_is_replaced()) {
    const char* reason = eight_bit_fallback_reason(x);
    reason = reason == nullptr ? numbers_fallback_reason(low, high) : reason;
    if (reason == nullptr) {
      return limited(Op::clamp, x, limits_of(x, low, high));
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, x, low, high).toTensor();
}

template <OpName kName>
at::Tensor& hardtanh_in_place(at::Tensor& x, const at::Scalar& low, const at::Scalar& high) {
  if (engine_is_replaced()) {
    const char* reason = eight_bit_fallback_reason(x);
    reason = reason == nullptr && !x.is_non_overlapping_and_dense() ? reasons::kNotDense : reason;
    reason = reason == nullptr ? numbers_fallback_reason(low, high) : reason;
    if (reason == nullptr) {
      limit_in_place(Op::clamp, x, limits_of(x, low, high));
      return x;
    }
    report_fallback(kName.text, reason);
  }
  call_torch(kName.text, x, low, high);
  return x;
}

#define ROW(name, ...) CPUACCEL_OVERRIDE(name, c10::DispatchKey::QuantizedCPU, __VA_ARGS__)
CPUACCEL_OVERRIDES{
    ROW("aten::relu", relu),
    ROW("aten::relu_", relu_in_place),
    ROW("aten::clamp", clamp, OptionalScalar),
    ROW("aten::hardtanh", clamp, at::Scalar),
    ROW("aten::hardtanh_", hardtanh_in_place),
    ROW("quantized::clamp", clamp, OptionalScalar),
    ROW("quantized::relu6", relu6),
};
#undef ROW

}  // namespace

}  // namespace cpuaccel::torch_ao
