// Memory of huge pages, where the system gives them, for blocks of any size side by side. A CPU has
// to look up where each page lies, and of small ones more than it remembers: reading 160 MB took a
// Xeon with AMX a quarter longer.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace cpuaccel {

// Memory is mapped in large runs, cut up, and what is given back is joined with what is free beside
// it. Huge pages that are wholly free then go back to the system; what is free of others stays for
// blocks to come. Thread-safe, fork-safe.
class PageRuns {
 public:
  PageRuns();
  // What is free goes back to the system; blocks that are not given back stay.
  ~PageRuns();
  PageRuns(const PageRuns&) = delete;
  PageRuns& operator=(const PageRuns&) = delete;

  static constexpr size_t kGrain = 4096;
  static constexpr size_t rounded(size_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }

  // A multiple of kGrain bytes, undefined contents; null if the system has none.
  std::byte* take(size_t bytes);
  // A block of take(), or a part of one.
  void give_back(std::byte* data, size_t bytes);

  // Gives the memory of what is free to the system too, at the cost of huge pages around it.
  void drop_free();

  // The same, and its addresses.
  void unmap_free();

  // Bytes that are mapped and not taken.
  size_t free_bytes() const;

  // Of these, the bytes that were written to and may be resident.
  size_t used_free_bytes() const;

 private:
  struct Free {
    size_t bytes;
    size_t used;  // bytes of it that may be resident
  };

  std::mutex& mutex_;
  std::map<std::byte*, Free> free_;
};

}  // namespace cpuaccel
