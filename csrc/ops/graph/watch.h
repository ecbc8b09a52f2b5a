// Whether tensors that something was made of are still what they were.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "ops/tensor_identity.h"

namespace cpuaccel::ops {

// Notices, for a fraction of what reading all bytes costs, that a tensor is another one or was
// written to. Another storage, offset, type, size, stride or version: at the next look. A write
// that leaves no version (through `.data` or numpy, and any to a tensor of inference mode) at the
// next look where it changed a whole page, and after kPhases looks wherever it changed anything:
// each look reads one of the 64 lines of each page of 4 KiB, the next look the next line. Tensors
// of one page at most are read whole.
class WatchedTensor {
 public:
  static constexpr int kPhases = 64;

  // Reads all of it. `tensor` is dense and on the CPU.
  explicit WatchedTensor(const at::Tensor& tensor);

  // Whether `tensor` lies where the one that was watched did.
  bool lies_there(const at::Tensor& tensor) const {
    return tensor.storage().unsafeGetStorageImpl() == identity_.storage;
  }
  // Whether `tensor` is the one that was watched, for all that can be known without reading it.
  bool is(const at::Tensor& tensor) const;
  // Whether its bytes are what they were, as far as look number `look` sees.
  bool unchanged(uint64_t look) const;
  // Whether the memory that was watched is gone.
  bool expired() const { return storage_.expired(); }

 private:
  uint64_t phase_sum(int phase) const;

  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  TensorIdentity identity_;
  const std::byte* data_;
  size_t bytes_;
  int64_t version_;
  std::array<uint64_t, kPhases> sums_{};
};

}  // namespace cpuaccel::ops
