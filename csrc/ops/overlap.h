// Operands that share memory with the result of a call.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>

namespace cpuaccel::ops {

// Sparse tensors have no storage of their own.
inline bool share_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.has_storage() && b.has_storage() && a.is_alias_of(b);
}

// Whether no byte of one is a byte of the other. torch cannot tell for expanded tensors (TooHard):
// they count as overlapping if they lie in the same storage.
inline bool apart(const at::Tensor& a, const at::Tensor& b) {
  return !share_storage(a, b) || at::get_overlap_status(a, b) == at::MemOverlapStatus::No;
}

// `x`, or a copy of it if `out` is written over it. torch's products write to `out` while they
// still read their operands, and do not check. An `out` that is `resized` first, to the result's
// size, may grow over anything in its storage.
inline at::Tensor apart_from(const at::Tensor& x, const at::Tensor& out, bool resized) {
  return (resized ? !share_storage(x, out) : apart(x, out)) ? x : x.clone();
}

// The same for a tensor that torch copies to `out` first. The copy is right if both are the same
// elements, and an error if they overlap in part.
inline at::Tensor addend_apart_from(const at::Tensor& x, const at::Tensor& out) {
  return share_storage(x, out) && at::get_overlap_status(x, out) == at::MemOverlapStatus::TooHard
             ? x.clone()
             : x;
}

}  // namespace cpuaccel::ops
