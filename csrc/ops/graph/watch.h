// Whether tensors that something was made of are still what they were.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/tensor_identity.h"

namespace cpuaccel::ops {

// How often a tensor was written to; -1 of those of inference mode, which do not count.
int64_t version_of(const at::Tensor& tensor);

// Notices, for a fraction of what reading all bytes costs, that one of some tensors is another or
// was written to. Another storage, offset, type, size, stride or version: at the next look. A write
// that leaves no version (through `.data` or numpy, and any to a tensor of inference mode) at the
// next look where it changed 64 KiB in a row, or an eighth of its tensor and 2 KiB at least, and
// after kPhases looks wherever it changed anything. Each look reads, of each tensor, one of kPhases
// pieces, and a line in every eighth and every 64 KiB of it; the next look reads the next piece and
// other lines. Tensors of 1 KiB at most are read whole.
// Safe to look at from several threads at once.
class WatchedTensors {
 public:
  static constexpr int kPhases = 64;

  // Reads all of them. They are dense and on the CPU. Looks are at the bytes of all, or of none
  // yet.
  explicit WatchedTensors(at::TensorList tensors, bool look_at_all = true);

  // Says that looks are at the bytes of a tensor, by its number: something was made of them.
  void look_at(size_t number);

  // Whether `tensors` are those that are watched, for all that can be known without reading them.
  bool are(at::TensorList tensors) const;
  // Whether `tensors` lie where those that were watched did; false where there are none.
  bool were(at::TensorList tensors) const;
  // Whether their bytes are what they were, as far as the next look sees.
  bool unchanged();
  // Whether the memory of one is gone.
  bool expired() const;

 private:
  struct Watched {
    // Holds the address: as long as it is held, no other storage has it.
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    TensorIdentity identity;
    const void* data;
    int64_t version;

    bool is(const at::Tensor& tensor) const;
  };
  struct Bytes {
    const std::byte* data;
    size_t count;
  };

  uint64_t sum_of(size_t number, size_t phase) const;

  std::vector<Watched> watched_;
  std::vector<Bytes> bytes_;
  // Of each tensor, for each phase.
  std::vector<std::array<uint64_t, kPhases>> sums_;
  std::vector<std::atomic<bool>> looked_at_;
  std::atomic<uint64_t> looks_{0};
};

}  // namespace cpuaccel::ops
