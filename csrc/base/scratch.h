// Per-thread scratch memory, cached between calls so that a repeated call allocates nothing.
#pragma once

#include <cstddef>
#include <memory>

#include "base/api.h"

namespace cpuaccel {

// scratch() returns at least `bytes`, 64-byte aligned, valid until the calling thread asks for the
// same slot again. The cache is bounded by kCachedScratchBytes per slot: the next smaller request
// frees a larger block.
inline constexpr size_t kCachedScratchBytes = size_t{8} << 20;

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

CPUACCEL_API void* scratch(ScratchSlot slot, size_t bytes);

// An aligned block that owns its memory.
struct CPUACCEL_API AlignedDelete {
  size_t huge_page_bytes = 0;  // bytes from base/huge_page_block.h; 0 for the heap
  void operator()(std::byte* block) const;
};
using AlignedBlock = std::unique_ptr<std::byte[], AlignedDelete>;
AlignedBlock aligned_block(size_t bytes);

}  // namespace cpuaccel
