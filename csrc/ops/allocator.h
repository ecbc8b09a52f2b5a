// Caching CPU allocator for torch: freed blocks of half a megabyte and more are cached for later
// tensors.
#pragma once

#include <cstdint>
#include <string>

#include "memory/block_pool.h"

namespace cpuaccel::ops {

// Smaller tensors use torch's own allocator: the C library reuses their memory itself.
inline constexpr size_t kSmallestCached = size_t{1} << 19;

// Installs this allocator over torch's. Returns an empty string, or the reason why it is not
// installed: a malloc other than the C library's is loaded (jemalloc, tcmalloc, a sanitizer's), or
// an allocator other than torch's is set.
std::string install_allocator();

// Restores torch's own allocator. Existing tensors keep their memory, and cached blocks stay
// cached.
void uninstall_allocator();

bool allocator_installed();

// The pool of the blocks; the same for the life of the process.
memory::BlockPool& block_pool();

// Returns the cached blocks, and what the C library holds of freed memory, to the system. The
// result is the bytes of the blocks.
int64_t empty_memory_cache();

}  // namespace cpuaccel::ops
