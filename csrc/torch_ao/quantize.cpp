// aten::quantize_per_tensor and aten::dequantize, between float32 and quint8 or qint8.

#include <ATen/EmptyTensor.h>

#include "kernels/dequantize/dequantize.h"
#include "kernels/quantize/quantize.h"
#include "torch_ao/elementwise.h"
#include "torch_ao/names.h"

namespace cpuaccel::torch_ao {
namespace {

const char* quantize_fallback_reason(const at::Tensor& x, int64_t zero_point,
                                     at::ScalarType dtype) {
  if (dtype != at::kQUInt8 && dtype != at::kQInt8) {
    return "dtype is not quint8 or qint8";
  }
  if (x.scalar_type() != at::kFloat || x.layout() != at::kStrided) {
    return "input is not strided float32";
  }
  return in_range(dtype, zero_point) ? nullptr : reasons::kZeroPoint;
}

at::Tensor run_quantize(const at::Tensor& x, double scale, int64_t zero_point,
                        at::ScalarType dtype) {
  CPUACCEL_KERNEL_CALL(quantize);
  const auto format = x.suggest_memory_format();
  const auto dense = x.expect_contiguous(format);
  auto result = empty_quantized(x.sizes(), dtype, scale, zero_point, format);
  const auto to_scale = static_cast<float>(scale);
  const auto to_zero_point = static_cast<int32_t>(zero_point);
  const auto* src = dense->const_data_ptr<float>();
  auto* dst = mutable_bytes(result);
  if (dtype == at::kQUInt8) {
    kernels::quantize_u8(src, dst, x.numel(), to_scale, to_zero_point);
  } else {
    kernels::quantize_s8(src, reinterpret_cast<int8_t*>(dst), x.numel(), to_scale, to_zero_point);
  }
  return result;
}

template <OpName kName>
at::Tensor quantize(const at::Tensor& x, double scale, int64_t zero_point, at::ScalarType dtype) {
  if (engine_is_replaced()) {
    const char* reason = quantize_fallback_reason(x, zero_point, dtype);
    if (reason == nullptr) {
      return run_quantize(x, scale, zero_point, dtype);
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, x, scale, zero_point, dtype).toTensor();
}

bool one_number(const at::Tensor& x, at::ScalarType dtype) {
  return x.scalar_type() == dtype && x.numel() == 1 && x.layout() == at::kStrided &&
         x.device().is_cpu();
}

// The quantizer as two tensors, as convert_fx and nn.quantized.Quantize pass it.
template <OpName kName>
at::Tensor quantize_by_tensors(const at::Tensor& x, const at::Tensor& scale,
                               const at::Tensor& zero_point, at::ScalarType dtype) {
  if (engine_is_replaced()) {
    const char* reason = "scale is not one float32, or zero_point not one int64";
    if (one_number(scale, at::kFloat) && one_number(zero_point, at::kLong)) {
      const double to_scale = *scale.const_data_ptr<float>();
      const int64_t to_zero_point = *zero_point.const_data_ptr<int64_t>();
      reason = quantize_fallback_reason(x, to_zero_point, dtype);
      if (reason == nullptr) {
        return run_quantize(x, to_scale, to_zero_point, dtype);
      }
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, x, scale, zero_point, dtype).toTensor();
}

template <OpName kName>
at::Tensor dequantize(const at::Tensor& x) {
  if (engine_is_replaced()) {
    const char* reason = eight_bit_fallback_reason(x);
    if (reason == nullptr) {
      CPUACCEL_KERNEL_CALL(dequantize);
      const auto format = x.suggest_memory_format();
      const auto dense = x.expect_contiguous(format);
      const at::Tensor result = at::detail::empty_cpu(x.sizes(), at::kFloat, false, format);
      const auto q = per_tensor(x);
      const auto scale = static_cast<float>(q.scale);
      const auto zero_point = static_cast<int32_t>(q.zero_point);
      auto* dst = result.mutable_data_ptr<float>();
      if (x.scalar_type() == at::kQUInt8) {
        kernels::dequantize_u8(bytes(*dense), dst, x.numel(), scale, zero_point);
      } else {
        kernels::dequantize_s8(reinterpret_cast<const int8_t*>(bytes(*dense)), dst, x.numel(),
                               scale, zero_point);
      }
      return result;
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, x).toTensor();
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::quantize_per_tensor", c10::DispatchKey::CPU, quantize),
    CPUACCEL_OVERRIDE("aten::quantize_per_tensor.tensor_qparams", c10::DispatchKey::CPU,
                      quantize_by_tensors),
    CPUACCEL_OVERRIDE("aten::dequantize.self", c10::DispatchKey::QuantizedCPU, dequantize),
};

}  // namespace

}  // namespace cpuaccel::torch_ao
