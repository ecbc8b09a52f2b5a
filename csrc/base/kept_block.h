// Memory for what is kept and read again and again, such as packed weights: side by side in huge
// pages (page_runs.h).
#pragma once

#include <cstddef>

#include "base/scratch.h"

namespace cpuaccel {

// 64-byte aligned, undefined contents; from the heap if it is small. Throws std::bad_alloc.
AlignedBlock kept_block(size_t bytes);

// Gives such a block's memory back: AlignedDelete calls it.
void give_back_kept(std::byte* data, size_t bytes);

}  // namespace cpuaccel
