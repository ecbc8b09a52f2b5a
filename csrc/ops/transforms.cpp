#include "ops/transforms.h"

#include <algorithm>

#include "ops/torch_compat/modes.h"

namespace cpuaccel::ops {

bool in_a_transform() {
  // torch.func includes both keys while its stack of transforms is not empty, and excludes the
  // first while it interprets a call.
  constexpr c10::DispatchKeySet kKeys{c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                      c10::DispatchKey::FuncTorchDynamicLayerBackMode};
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(kKeys);
}

bool is_transformed(std::initializer_list<const at::Tensor*> tensors) {
  return in_a_transform() || std::ranges::any_of(tensors, [](const at::Tensor* each) {
           return each != nullptr && has_tangent(*each);
         });
}

bool is_transformed(at::TensorList tensors) {
  return in_a_transform() || std::ranges::any_of(tensors, has_tangent);
}

}  // namespace cpuaccel::ops
