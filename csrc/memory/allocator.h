// torch's CPU allocator with a cache: blocks of half a megabyte and more are kept when they are
// freed.
#pragma once

#include <string>

#include "memory/block_pool.h"

namespace cpuaccel::memory {

// Smaller tensors are torch's own allocator's: the C library reuses those itself.
inline constexpr size_t kLeastCached = size_t{1} << 19;

// Puts ours over torch's. Returns why it does not, empty if it does: another malloc than the C
// library's is loaded (jemalloc, tcmalloc, a sanitizer's), or another allocator than torch's is
// set.
std::string install_allocator();

// Gives torch its own back. Tensors that exist keep their memory, and what is kept stays kept.
void uninstall_allocator();

bool allocator_installed();

// Where the blocks are; the same for the life of the process.
BlockPool& block_pool();

}  // namespace cpuaccel::memory
