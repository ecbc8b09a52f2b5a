// aten::_weight_int8pack_mm: a float matrix times an int8 weight with a scale for each row of it.
//
//   result[m,n] = scales[n] * sum over k of self[m,k] * mat2[n,k]
//
// self M x K of f32, bf16 or f16, as the result; mat2 N x K. torch's kernel has intrinsics for
// AVX-512 and Arm only. It ends the process if bf16 rows do not begin at a multiple of 32
// bytes. It is wrong, or ends the process, if K is not a multiple of 16. So calls that cpuaccel's
// kernels do not support are composed of other ops of torch.

#include <optional>

#include "ops/data_type.h"
#include "ops/int8_linear.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

// Whether torch accepts the arguments; otherwise its kernel raises the error.
bool is_valid(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scales) {
  return self.dim() == 2 && is_gemm_type(self.scalar_type()) && mat2.dim() == 2 &&
         mat2.scalar_type() == at::kChar && mat2.size(1) == self.size(1) && mat2.is_contiguous() &&
         scales.dim() == 1 && scales.size(0) == mat2.size(0) &&
         scales.scalar_type() == self.scalar_type() && self.stride(1) == 1;
}

template <OpName kName>
at::Tensor weight_int8pack_mm(const at::Tensor& self, const at::Tensor& mat2,
                              const at::Tensor& scales) {
  if (!is_valid(self, mat2, scales)) {
    report_fallback("weight_int8pack_mm", reasons::kInvalidArguments);
    return call_torch(kName.text, self, mat2, scales).toTensor();
  }
  const std::optional<at::Tensor> none;
  const Int8Linear call{.input = self,
                        .weight = mat2,
                        .weight_scale = scales,
                        .weight_zero_point = none,
                        .bias = none,
                        .quantize = "none",
                        .symmetric = true,
                        .scale = none,
                        .zero_point = none,
                        .low = -128,
                        .high = 127};
  const char* reason = nullptr;
  const at::Tensor result = int8_linear_by_kernel(call, Op::packed_linear, reason);
  if (reason == nullptr) {
    return result;
  }
  report_fallback("weight_int8pack_mm", reason);
  return int8_linear_by_torch(call);
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::_weight_int8pack_mm", c10::DispatchKey::CPU, weight_int8pack_mm),
};

}  // namespace
}  // namespace cpuaccel::ops
