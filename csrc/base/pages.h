// Maps and unmaps pages of the system, with huge pages for large blocks.
#pragma once

#include <cstddef>

namespace cpuaccel {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Maps `bytes` (a multiple of 64 KiB) of zeroed memory. A block of at least kHugePage begins at a
// huge page, and its whole huge pages are advised (MADV_HUGEPAGE). The rest stays small pages, so
// that only written memory is resident. Null if the system has none.
void* map_pages(size_t bytes);

void unmap_pages(void* data, size_t bytes);

// Returns the memory of the pages; they stay mapped and read as zeros.
void drop_pages(void* data, size_t bytes);

}  // namespace cpuaccel
