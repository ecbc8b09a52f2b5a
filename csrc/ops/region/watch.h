// Detects changes of tensors, such as weights that a plan was compiled on.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/region/hidden_writes.h"
#include "ops/tensor_identity.h"

namespace cpuaccel::ops {

// The version counter of a tensor; -1 for tensors of inference mode, which have none.
int64_t version_of(const at::Tensor& tensor);

// Detects that a tensor was replaced or written to, at a fraction of the cost of reading all bytes.
// Another storage, offset, type, size, stride or version is found at the next look. A write that
// leaves the version (through `.data` or numpy, and any to a tensor of inference mode) is found at
// the next look if it changed 64 KiB in a row, or an eighth of its tensor and at least 2 KiB; any
// other change is found after as many looks as there are phases: kPhases, or kPhasesOfMany for
// tensors of more than kManyBytes together. A look reads the whole tensor after a hidden write
// (hidden_writes.h), and if its storage was allocated anew elsewhere, as FSDP does.
//
// Each look reads one of these pieces of each tensor, and one cache line in every eighth and every
// 64 KiB of it. The next look reads the next piece and other lines. Tensors of at most 1 KiB are
// read whole. Looks are thread-safe.
class WatchedTensors {
 public:
  static constexpr size_t kPhases = 64;
  // A decoder's token reads all of its weights once: a 64th more of them takes 3 % longer.
  static constexpr size_t kPhasesOfMany = 256, kManyBytes = size_t{64} << 20;

  // Reads all tensors, which are dense and on the CPU. Looks then read the bytes of all tensors, or
  // of none until look_at().
  explicit WatchedTensors(at::TensorList tensors, bool look_at_all = true);

  // From now on, looks read the bytes of this tensor, because something was made from them.
  void look_at(size_t number);

  // Whether `tensors` are the watched ones, as far as that is known without reading them. Their
  // storages may have been allocated anew.
  bool are(at::TensorList tensors) const;
  // Whether `tensors` have the storages of the watched ones; false if none is watched.
  bool were(at::TensorList tensors) const;
  // Whether the bytes that the next look reads are unchanged. `tensors` are the watched ones.
  bool unchanged(at::TensorList tensors);
  // Whether the memory of a watched tensor was freed.
  bool expired() const;

 private:
  struct Watched {
    // While this is held, no other storage has its address.
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    TensorIdentity identity;
    int64_t version;

    bool is(const at::Tensor& tensor) const;
  };
  struct Bytes {
    std::atomic<const std::byte*> data{nullptr};
    size_t count = 0;
  };

  uint64_t sum_of(size_t number, size_t phase) const;
  // Reads the tensors whole that moved, or had hidden writes since the last look.
  bool moved_and_written_are_unchanged(at::TensorList tensors);
  bool range_is_unchanged(size_t begin, size_t end, size_t phase) const;

  std::vector<Watched> watched_;
  HiddenWriteCounts hidden_writes_;
  std::vector<Bytes> bytes_;
  // What a look at the tensors before each one costs, and at all of them.
  std::vector<int64_t> costs_;
  size_t phases_ = kPhases;
  // For each phase and each tensor: a look reads those of one phase.
  std::vector<uint64_t> sums_;
  std::vector<std::atomic<bool>> looked_at_;
  std::atomic<uint64_t> looks_{0};
};

}  // namespace cpuaccel::ops
