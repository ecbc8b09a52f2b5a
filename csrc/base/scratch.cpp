#include "base/scratch.h"

#include <algorithm>
#include <array>
#include <new>

#include "base/huge_page_block.h"

namespace cpuaccel {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Slot {
  AlignedBlock block;
  size_t bytes = 0;
};

}  // namespace

void AlignedDelete::operator()(std::byte* block) const {
  if (huge_page_bytes != 0) {
    give_back_huge_page_block(block, huge_page_bytes);
  } else {
    ::operator delete(block, kAlignment);
  }
}

AlignedBlock aligned_block(size_t bytes) {
  return AlignedBlock(
      static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), kAlignment)));
}

void* scratch(ScratchSlot slot, size_t bytes) {
  thread_local std::array<Slot, static_cast<size_t>(ScratchSlot::count_)> slots;
  auto& cached = slots[static_cast<size_t>(slot)];
  const bool oversized = cached.bytes > kCachedScratchBytes && bytes <= kCachedScratchBytes;
  if (cached.bytes < bytes || oversized) {
    cached.block.reset();
    cached.bytes = 0;
    cached.block = aligned_block(bytes);
    cached.bytes = bytes;
  }
  return cached.block.get();
}

}  // namespace cpuaccel
