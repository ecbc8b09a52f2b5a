// Whether a kernel can read a tensor's memory as its values.
#pragma once

#include <ATen/core/Tensor.h>

namespace cpuaccel::ops {

// On the CPU, with strides, and without a pending negation.
inline bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && !tensor.is_neg();
}

}  // namespace cpuaccel::ops
