// Counts writes to watched tensors that leave no version: those of collectives of
// torch.distributed, and of FSDP, which fills a weight anew before each use and restores its
// version.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace cpuaccel::ops {

// Counts a write to the memory of `tensor`, if any HiddenWriteCounts watches its storage.
// Thread-safe.
void note_hidden_write(const at::Tensor& tensor);

// The hidden writes to some tensors since they were last read whole. Thread-safe.
class HiddenWriteCounts {
 public:
  explicit HiddenWriteCounts(at::TensorList tensors);
  ~HiddenWriteCounts();
  HiddenWriteCounts(const HiddenWriteCounts&) = delete;
  HiddenWriteCounts& operator=(const HiddenWriteCounts&) = delete;

  // All hidden writes to watched tensors of the process: while it stays, no count changes.
  static uint64_t total() { return noted().load(std::memory_order_acquire); }
  uint64_t count(size_t number) const {
    return tensors_[number].writes->load(std::memory_order_acquire);
  }

  bool all_seen(uint64_t total) const { return seen_.load() == total; }
  bool is_seen(size_t number, uint64_t count) const {
    return tensors_[number].seen.load() == count;
  }
  void set_all_seen(uint64_t total) { seen_.store(total); }
  void set_seen(size_t number, uint64_t count) { tensors_[number].seen.store(count); }

 private:
  struct Watched {
    const c10::StorageImpl* storage = nullptr;
    std::shared_ptr<std::atomic<uint64_t>> writes;
    std::atomic<uint64_t> seen{0};
  };

  static std::atomic<uint64_t>& noted();

  std::vector<Watched> tensors_;
  std::atomic<uint64_t> seen_;

  friend void note_hidden_write(const at::Tensor& tensor);
};

}  // namespace cpuaccel::ops
