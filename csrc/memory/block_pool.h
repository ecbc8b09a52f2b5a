// Pool of large memory blocks: caches freed blocks for later allocations, whole or split.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

#include "base/api.h"
#include "base/fork.h"
#include "base/page_runs.h"
#include "memory/address_space.h"
#include "memory/machine.h"

namespace cpuaccel::memory {

struct PoolStats {
  int64_t allocated = 0;       // bytes of blocks in use
  int64_t reserved = 0;        // bytes of blocks in use and of cached blocks
  int64_t peak_allocated = 0;  // since the start, or the last reset_peaks()
  int64_t peak_reserved = 0;
  int64_t hits = 0;    // allocations from cached blocks
  int64_t misses = 0;  // allocations that needed new memory
  int64_t trims = 0;   // cached blocks, or parts of them, that were given back
};

// Thread-safe, fork-safe. Cached memory stays
//   - below `capacity`;
//   - below the point where allocated and cached blocks together are kSlack times the most that was
//     ever requested, so that a program's memory does not grow;
//   - below kAddressShare of the address space that others could map, if that is limited.
// Cached memory that no allocation needed for a while goes back to the system (age()). Under
// pressure (`machine` reports that little is available) nothing is cached.
class CPUACCEL_API BlockPool {
 public:
  using Machine = std::function<MachineMemory()>;
  using Address = std::function<AddressSpace()>;
  using Time = std::chrono::steady_clock::time_point;
  using Clock = std::function<Time()>;

  explicit BlockPool(
      Machine machine, Address address = [] { return address_space(); },
      Clock clock = [] { return std::chrono::steady_clock::now(); });
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // At least `bytes`, undefined contents. Null if the system has no memory even after all cached
  // blocks were returned.
  void* allocate(size_t bytes);
  // Whether `data` is a block in use.
  bool owns(void* data) const;
  // Whether it may be one, judging by its address only; few other addresses qualify.
  static bool may_own(const void* data);
  // Gives a block of allocate() back. Other addresses are ignored.
  void release(void* data);

  // Returns idle memory, or all cached memory under pressure. The pool has no thread for this:
  // every release does the same, new blocks check for pressure, and the owner calls this in
  // between.
  void age();

  // Returns every cached block to the system. Returns their bytes.
  int64_t empty();
  // Whether any block is cached, read without a lock.
  bool has_cached() const { return has_cached_.load(std::memory_order_relaxed); }
  // Bytes that may be cached; negative: half of the memory limit.
  void set_capacity(int64_t bytes);

  PoolStats stats() const;
  void reset_peaks();

 private:
  struct Block {
    std::byte* data;
    size_t bytes;
  };
  struct Used {
    size_t bytes;
    size_t wanted;
  };
  using Blocks = std::list<Block>;  // longest cached first

  // Takes the smallest cached block of at least `bytes`; what remains of it is cached again.
  void* take_cached(size_t bytes, size_t wanted);
  // Caches a block, joined with adjacent cached blocks.
  void cache(Block block);
  void drop(Blocks::iterator position);
  // Registers a block as used and returns where its contents begin.
  void* use(Block block, size_t wanted);
  // Unmaps the longest cached blocks, or parts of them, until at most `bytes` are cached.
  void shrink_to(int64_t bytes);
  // Unmaps all cached blocks, and drops free parts of huge pages that blocks in use share.
  void give_all_back();
  int64_t cached() const { return stats_.reserved - stats_.allocated; }
  void note_least_cached() { least_cached_ = std::min(least_cached_, cached()); }
  bool under_pressure(size_t bytes, Time now);
  // Reduces the cache to its limits, after a block of `released` bytes was freed or memory became
  // idle.
  void trim(size_t released);
  // Returns memory that was cached during the whole window, if the window has ended.
  void give_idle_back(Time now);
  // Drops free but resident parts of huge pages if `limit` requires it.
  void drop_fragments(int64_t limit);
  int64_t address_allowance(size_t released, Time now);

  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::memory, this);  // guards all following members
  Machine machine_;
  Address address_;
  Clock clock_;
  PageRuns pages_;
  int64_t capacity_ = 0;
  int64_t wanted_ = 0;       // requested bytes of blocks in use
  int64_t most_wanted_ = 0;  // its peak, never reset
  PoolStats stats_;
  Blocks cached_blocks_;
  std::atomic<bool> has_cached_{false};  // whether cached_blocks_ is not empty
  std::multimap<size_t, Blocks::iterator> by_size_;
  std::map<std::byte*, Blocks::iterator> by_address_;
  std::unordered_map<void*, Used> used_;
  Time asked_{};
  MachineMemory answer_;
  Time space_asked_{};
  AddressSpace space_{.limit = 0, .available = 0};  // read on first use
  Time window_began_{};
  std::chrono::seconds window_;
  int64_t least_cached_ = 0;   // minimum in the window: memory that no allocation needed
  int64_t idle_returned_ = 0;  // bytes returned as idle and not mapped again
  int64_t idle_remapped_ = 0;  // bytes returned as idle and mapped again
};

}  // namespace cpuaccel::memory
