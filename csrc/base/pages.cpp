#include "base/pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace cpuaccel {
namespace {

void* map_anywhere(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}

}  // namespace

void* map_pages(size_t bytes) {
  if (bytes < kHugePage) {
    return map_anywhere(bytes);
  }
  auto* mapped = static_cast<std::byte*>(map_anywhere(bytes + kHugePage));
  if (mapped == nullptr) {
    return nullptr;
  }
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(mapped) % kHugePage) % kHugePage;
  std::byte* data = mapped + before;
  if (before > 0) {
    munmap(mapped, before);
  }
  munmap(data + bytes, kHugePage - before);
  // This fails if huge pages are off; small pages work too.
  static_cast<void>(madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE));
  return data;
}

void unmap_pages(void* data, size_t bytes) { munmap(data, bytes); }

void drop_pages(void* data, size_t bytes) {
  static_cast<void>(madvise(data, bytes, MADV_DONTNEED));
}

}  // namespace cpuaccel
