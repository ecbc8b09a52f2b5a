// Detects plain CPU tensors (no subclass, mode or transform), for kernels under Autograd keys.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

namespace cpuaccel::ops {

// Whether each tensor is strided, has memory on the CPU, and no subclass, dispatch mode or
// transform sees the call. An undefined tensor is plain.
bool plain(std::initializer_list<const at::Tensor*> tensors);

}  // namespace cpuaccel::ops
