// What the derivatives of ours ask of the tensors of a call.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

namespace cpuaccel::ops {

// Dense tensors with memory on the CPU, that nobody looks over the shoulder of: no subclass, no
// mode, no transformation. Those that are not defined count as plain.
bool plain(std::initializer_list<const at::Tensor*> tensors);

}  // namespace cpuaccel::ops
