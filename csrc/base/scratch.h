// Scratch memory that a thread keeps between calls, so that a repeated call allocates nothing.
#pragma once

#include <cstddef>
#include <memory>

namespace cpuaccel {

// At least `bytes`, 64-byte aligned, valid until the calling thread asks again with the same slot.
// What is kept is bounded by kKeptScratchBytes per slot: a larger block is freed by the next
// smaller request.
inline constexpr size_t kKeptScratchBytes = size_t{8} << 20;

enum class ScratchSlot {
  primitive,
  accumulator,
  quantized_src,
  taps,
  runs,
  broadcast,
  gemm_a,
  gemm_b,
  gemm_dst,
  gemm_bias,
  count_
};

void* scratch(ScratchSlot slot, size_t bytes);

// An aligned block that owns its memory.
struct AlignedDelete {
  size_t kept = 0;  // bytes, of memory that base/kept_block.h gave
  void operator()(std::byte* block) const;
};
using AlignedBlock = std::unique_ptr<std::byte[], AlignedDelete>;
AlignedBlock aligned_block(size_t bytes);

}  // namespace cpuaccel
