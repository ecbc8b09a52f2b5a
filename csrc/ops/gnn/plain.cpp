#include "ops/gnn/plain.h"

#include <algorithm>

#include "ops/gnn/rows.h"
#include "ops/torch_compat/modes.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {

bool plain(std::initializer_list<const at::Tensor*> tensors) {
  constexpr c10::DispatchKeySet kNot{c10::DispatchKey::Python,
                                     c10::DispatchKey::Functionalize,
                                     c10::DispatchKey::FuncTorchBatched,
                                     c10::DispatchKey::Batched,
                                     c10::DispatchKey::FuncTorchGradWrapper,
                                     c10::DispatchKey::Negative};
  return !in_a_transform() && !c10::impl::TorchDispatchModeTLS::any_modes_set() &&
         std::ranges::all_of(tensors, [&](const at::Tensor* each) {
           return !each->defined() ||
                  (strided_on_cpu(*each) && each->has_storage() && !each->key_set().has_any(kNot));
         });
}

}  // namespace cpuaccel::ops
