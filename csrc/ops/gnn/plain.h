// A check of the tensors of a call, for the kernels under Autograd keys.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

namespace cpuaccel::ops {

// Whether each tensor is dense, has memory on the CPU, and is seen by no subclass, dispatch mode or
// transform. An undefined tensor is plain.
bool plain(std::initializer_list<const at::Tensor*> tensors);

}  // namespace cpuaccel::ops
