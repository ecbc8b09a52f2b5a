// Detects calls that torch.func transforms, or whose tensors carry a forward-mode derivative (a
// tangent). Kernels above torch's autograd check this before they take a path of their own.
//
// Such a call is composed of torch's ops, which have all derivatives and batching rules.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>

namespace cpuaccel::ops {

// The fallback reason of such calls.
inline constexpr const char* kTransformed = "torch.func or forward-mode derivatives";

// Whether the call is inside a torch.func transform (grad, vmap, jvp, functionalize), at any level.
// Its tensors are wrappers without memory.
bool in_a_transform();

inline bool has_tangent(const at::Tensor& tensor) {
  return tensor.defined() && tensor._fw_grad(0).defined();
}

// Whether either is true for the tensors of a call. Null pointers stand for tensors that are not
// given.
bool is_transformed(std::initializer_list<const at::Tensor*> tensors);
bool is_transformed(at::TensorList tensors);

inline const at::Tensor* pointer_to(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() ? &*tensor : nullptr;
}

}  // namespace cpuaccel::ops
