// What a kernel that stands above torch's autograd asks before it takes a path of its own: does
// torch.func transform this call, and does a tensor carry a forward-mode derivative (a tangent)?
//
// Such a call is composed of torch's ops, which have all derivatives and batching rules.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>

namespace cpuaccel::ops {

// The reason such calls are counted under.
inline constexpr const char* kTransformed = "torch.func or forward-mode derivatives";

// Within a transform of torch.func (grad, vmap, jvp, functionalize), at any level. Its tensors are
// wrappers without memory.
bool in_a_transform();

inline bool has_tangent(const at::Tensor& tensor) {
  return tensor.defined() && tensor._fw_grad(0).defined();
}

// Either of both, for the tensors of a call; null pointers are tensors that are not given.
bool is_transformed(std::initializer_list<const at::Tensor*> tensors);
bool is_transformed(at::TensorList tensors);

inline const at::Tensor* pointer_to(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() ? &*tensor : nullptr;
}

}  // namespace cpuaccel::ops
