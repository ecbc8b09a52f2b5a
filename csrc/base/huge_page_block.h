// Memory for long-lived data that is read repeatedly, such as packed weights: side by side in huge
// pages (page_runs.h).
#pragma once

#include <cstddef>

#include "base/scratch.h"

namespace cpuaccel {

// 64-byte aligned, undefined contents; small blocks come from the heap. Throws std::bad_alloc.
AlignedBlock huge_page_block(size_t bytes);

// Returns the memory of such a block; called by AlignedDelete.
void give_back_huge_page_block(std::byte* data, size_t bytes);

}  // namespace cpuaccel
