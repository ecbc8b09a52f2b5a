// Detects operands that overlap in memory with the output of a call, and copies them.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/torch_compat/tensors.h"

namespace cpuaccel::ops {

// Sparse tensors have no storage of their own. Two storages of the same memory have the same
// context.
inline bool share_storage(const at::Tensor& a, const at::Tensor& b) {
  const c10::Storage& first = a.unsafeGetTensorImpl()->unsafe_storage();
  const c10::Storage& second = b.unsafeGetTensorImpl()->unsafe_storage();
  return first && second &&
         (first.unsafeGetStorageImpl() == second.unsafeGetStorageImpl() ||
          (first.data_ptr().get_context() == second.data_ptr().get_context() &&
           first.is_alias_of(second)));
}

// Whether the two tensors share no byte. torch cannot tell for expanded tensors (TooHard): they
// count as overlapping if they lie in the same storage.
inline bool apart(const at::Tensor& a, const at::Tensor& b) {
  return !share_storage(a, b) || at::get_overlap_status(a, b) == at::MemOverlapStatus::No;
}

// `x`, or a copy of it if writing `out` would overwrite it. torch's products write to `out` while
// they still read their operands, and do not check. If `resized()`, `out` is first resized to the
// result's size, and may grow over anything in its storage.
template <typename Resized>
c10::MaybeOwned<at::Tensor> apart_from(const at::Tensor& x, const at::Tensor& out,
                                       const Resized& resized) {
  const bool overlaps = share_storage(x, out) &&
                        (resized() || at::get_overlap_status(x, out) != at::MemOverlapStatus::No);
  return overlaps ? c10::MaybeOwned<at::Tensor>::owned(x.clone())
                  : c10::MaybeOwned<at::Tensor>::borrowed(x);
}

// For an `out` that may always be resized.
inline c10::MaybeOwned<at::Tensor> apart_from(const at::Tensor& x, const at::Tensor& out) {
  return apart_from(x, out, [] { return true; });
}

// The same for a tensor that torch copies to `out` first. That copy is right if both are the same
// elements, and an error if they overlap in part.
inline c10::MaybeOwned<at::Tensor> addend_apart_from(const at::Tensor& x, const at::Tensor& out) {
  return share_storage(x, out) && at::get_overlap_status(x, out) == at::MemOverlapStatus::TooHard
             ? c10::MaybeOwned<at::Tensor>::owned(x.clone())
             : c10::MaybeOwned<at::Tensor>::borrowed(x);
}

}  // namespace cpuaccel::ops
