// aten::silu of dense float tensors.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include "kernels/silu_f32/silu_f32.h"
#include "ops/kernel_call.h"
#include "ops/override.h"
#include "ops/torch_compat/cpu_kernels.h"

namespace cpuaccel::ops {
namespace {

bool supported(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat && x.layout() == at::kStrided && x.numel() > 0 &&
         x.is_non_overlapping_and_dense();
}

// With the strides that TensorIterator gives a result: for a dimension of one element, x's own
// stride may be any number.
at::Tensor empty_result(const at::Tensor& x) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    if (x.is_contiguous(format)) {
      return at::detail::empty_cpu(x.sizes(), at::kFloat, /*pin_memory=*/false, format);
    }
  }
  return at::detail::empty_strided_cpu(x.sizes(), x.strides(), at::kFloat);
}

template <OpName kName>
at::Tensor silu(const at::Tensor& x) {
  if (!supported(x)) {
    return at::cpu::silu(x);
  }
  CPUACCEL_KERNEL_CALL(silu);
  auto result = empty_result(x);
  kernels::silu_f32(x.const_data_ptr<float>(), result.mutable_data_ptr<float>(), x.numel());
  return result;
}

template <OpName kName>
at::Tensor& silu_in_place(at::Tensor& x) {
  if (!supported(x)) {
    return at::cpu::silu_(x);
  }
  CPUACCEL_KERNEL_CALL(silu);
  auto* data = x.mutable_data_ptr<float>();
  kernels::silu_f32(data, data, x.numel());
  return x;
}

#define ROW(name, function) CPUACCEL_OVERRIDE(name, c10::DispatchKey::CPU, function)
CPUACCEL_OVERRIDES{
    ROW("aten::silu", silu),
    ROW("aten::silu_", silu_in_place),
};
#undef ROW

}  // namespace

}  // namespace cpuaccel::ops
