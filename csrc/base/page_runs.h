// Allocator that puts blocks of any size side by side in huge pages, if the system has them. Small
// pages cause TLB misses: with them, reading 160 MB took a Xeon with AMX a quarter longer.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace cpuaccel {

// Maps memory in large runs and splits them. Returned blocks are joined with free neighbors. Huge
// pages that are then wholly free go back to the system; other free parts stay for later blocks.
// Thread-safe, fork-safe.
class PageRuns {
 public:
  PageRuns();
  // Returns free memory to the system; blocks that were not given back stay.
  ~PageRuns();
  PageRuns(const PageRuns&) = delete;
  PageRuns& operator=(const PageRuns&) = delete;

  static constexpr size_t kGrain = 4096;
  static constexpr size_t rounded(size_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }

  // `bytes` is a multiple of kGrain; undefined contents. Returns null if the system has no memory.
  std::byte* take(size_t bytes);
  // Gives back a block of take(), or a part of one.
  void give_back(std::byte* data, size_t bytes);

  // Returns the memory of free parts to the system too, which splits the huge pages around them.
  void drop_free();

  // Unmaps the free parts as well.
  void unmap_free();

  // Bytes that are mapped but not taken.
  size_t free_bytes() const;

  // Those of free_bytes() that were written to and may be resident.
  size_t used_free_bytes() const;

 private:
  struct Free {
    size_t bytes;
    size_t used;  // those that may be resident
  };

  std::mutex& mutex_;
  std::map<std::byte*, Free> free_;
};

}  // namespace cpuaccel
