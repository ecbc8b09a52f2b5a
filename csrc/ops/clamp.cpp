// relu, relu6, hardtanh and clamp of quantised tensors.

#include "kernels/clamp/clamp.h"

#include <ATen/native/quantized/AffineQuantizerBase.h>

#include <array>
#include <optional>
#include <utility>

#include "ops/elementwise.h"
#include "ops/lists.h"
#include "ops/own_call.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

using Number = std::optional<at::Scalar>;

struct Limits {
  uint8_t low = 0;
  uint8_t high = 255;
};

// A real number as torch's clamp sees it: quantised as a tensor's element would be.
uint8_t quantized(const PerTensor& q, const at::Scalar& value) {
  return at::native::quantize_val<c10::quint8>(q.scale, q.zero_point, value.to<float>()).val_;
}

Limits limits_of(const PerTensor& q, const Number& low, const Number& high) {
  Limits limits;
  if (low) {
    limits.low = quantized(q, *low);
  }
  if (high) {
    limits.high = quantized(q, *high);
  }
  return limits;
}

bool plain(const Number& value) {
  return !value || (!value->isSymbolic() && (value->isFloatingPoint() || value->isIntegral(true)));
}

const char* refuses(const at::Tensor& x) {
  if (const char* why = refuses_quint8(x)) {
    return why;
  }
  return refuses_zero_point(per_tensor(x).zero_point);
}

const char* refuses_numbers(const Number& low, const Number& high) {
  return (low || high) && plain(low) && plain(high) ? nullptr : "limits that are no plain numbers";
}

at::Tensor limited(Op op, const at::Tensor& x, Limits limits) {
  const OwnCall own_call(op);
  const auto format = x.suggest_memory_format();
  const bool dense = x.is_contiguous(format);
  auto result = dense ? empty_quantized_as(x, x.sizes(), format) : x.contiguous(format);
  const auto* src = bytes(dense ? x : result);
  kernels::clamp_u8(src, mutable_bytes(result), x.numel(), limits.low, limits.high);
  return result;
}

void limit(Op op, at::Tensor& x, Limits limits) {
  const OwnCall own_call(op);
  kernels::clamp_u8(bytes(x), mutable_bytes(x), x.numel(), limits.low, limits.high);
}

template <OpName kName>
at::Tensor relu(const at::Tensor& x) {
  if (our_engine()) {
    const char* why = refuses(x);
    if (why == nullptr) {
      return limited(Op::relu, x, {static_cast<uint8_t>(per_tensor(x).zero_point), 255});
    }
    count_refusal(kName.text, why);
  }
  return call_torch(kName.text, x).toTensor();
}

template <OpName kName>
at::Tensor& relu_in_place(at::Tensor& x) {
  if (our_engine()) {
    const char* why = refuses(x);
    why = why == nullptr && !x.is_non_overlapping_and_dense() ? "strided input" : why;
    if (why == nullptr) {
      limit(Op::relu, x, {static_cast<uint8_t>(per_tensor(x).zero_point), 255});
      return x;
    }
    count_refusal(kName.text, why);
  }
  call_torch(kName.text, x);
  return x;
}

template <OpName kName>
at::Tensor relu6(at::Tensor x, bool inplace) {
  if (our_engine()) {
    const char* why = inplace ? "inplace" : refuses(x);
    if (why == nullptr) {
      return limited(Op::clamp, x, limits_of(per_tensor(x), 0.0, 6.0));
    }
    count_refusal(kName.text, why);
  }
  return call_torch(kName.text, x, inplace).toTensor();
}

template <OpName kName, typename Low>
at::Tensor clamp(const at::Tensor& x, const Low& low, const Low& high) {
  if (our_engine()) {
    const char* why = refuses(x);
    why = why == nullptr ? refuses_numbers(low, high) : why;
    if (why == nullptr) {
      return limited(Op::clamp, x, limits_of(per_tensor(x), low, high));
    }
    count_refusal(kName.text, why);
  }
  return call_torch(kName.text, x, low, high).toTensor();
}

template <OpName kName>
at::Tensor& hardtanh_in_place(at::Tensor& x, const at::Scalar& low, const at::Scalar& high) {
  if (our_engine()) {
    const char* why = refuses(x);
    why = why == nullptr && !x.is_non_overlapping_and_dense() ? "strided input" : why;
    why = why == nullptr ? refuses_numbers(low, high) : why;
    if (why == nullptr) {
      limit(Op::clamp, x, limits_of(per_tensor(x), low, high));
      return x;
    }
    count_refusal(kName.text, why);
  }
  call_torch(kName.text, x, low, high);
  return x;
}

#define ROW(name, ...) CPUACCEL_OVERRIDE(name, c10::DispatchKey::QuantizedCPU, __VA_ARGS__)
constexpr std::array kOverrides{
    ROW("aten::relu", relu),
    ROW("aten::relu_", relu_in_place),
    ROW("aten::clamp", clamp, Number),
    ROW("aten::hardtanh", clamp, at::Scalar),
    ROW("aten::hardtanh_", hardtanh_in_place),
    ROW("quantized::clamp", clamp, Number),
    ROW("quantized::relu6", relu6),
};
#undef ROW

}  // namespace

std::span<const Override> clamp_overrides() { return kOverrides; }

}  // namespace cpuaccel::ops
