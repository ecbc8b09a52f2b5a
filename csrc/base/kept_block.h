// Memory for what is kept and read again and again, such as packed weights: side by side in huge
// pages, where the system gives them. A CPU has to look up where each page lies, and of small ones
// more than it remembers: reading 160 MB took a Xeon with AMX a quarter longer.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "base/scratch.h"

namespace cpuaccel {

// 64-byte aligned, undefined contents; from the heap if it is small. Throws std::bad_alloc.
AlignedBlock kept_block(size_t bytes);

// Gives such a block's memory back: AlignedDelete calls it.
void give_back_kept(std::byte* data, size_t bytes);

// Where they come from: memory is mapped in large runs, cut up, and what is given back is joined
// with what is free beside it. Huge pages that are wholly free then go back to the system, so no
// more stays than the ends of two pages for each run of blocks. Thread-safe, fork-safe.
class KeptMemory {
 public:
  KeptMemory();

  // A multiple of kGrain bytes; null if the system has none.
  std::byte* take(size_t bytes);
  void give_back(std::byte* data, size_t bytes);

  static constexpr size_t kGrain = 4096;

  // Bytes that are mapped and not taken.
  size_t free_bytes() const;

 private:
  std::mutex& mutex_;
  std::map<std::byte*, size_t> free_;
};

}  // namespace cpuaccel
