// Pages from the system.
#pragma once

#include <cstddef>

namespace cpuaccel {

inline constexpr size_t kHugePage = size_t{2} << 20;

// `bytes` (a multiple of 64 KiB) of zeroed memory of its own. From kHugePage on it begins at a huge
// page, and whole huge pages in it are advised to be ones; the rest stays small pages, so that
// nothing is resident that nobody writes to. Null if the system has none.
void* map_pages(size_t bytes);

void unmap_pages(void* data, size_t bytes);

// Gives their memory back; they stay mapped, with zeros.
void drop_pages(void* data, size_t bytes);

}  // namespace cpuaccel
