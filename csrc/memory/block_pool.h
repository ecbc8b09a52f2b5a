// Large blocks of memory that are kept when they are freed, for the next ones: whole, or cut up.
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

#include "base/fork.h"
#include "base/page_runs.h"
#include "memory/address_space.h"
#include "memory/machine.h"

namespace cpuaccel::memory {

struct PoolStats {
  int64_t allocated = 0;       // bytes of blocks that are in use
  int64_t reserved = 0;        // the same, and of blocks that are kept
  int64_t peak_allocated = 0;  // since the start, or the last reset_peaks()
  int64_t peak_reserved = 0;
  int64_t hits = 0;    // blocks that were there
  int64_t misses = 0;  // blocks that the system had to map
  int64_t trims = 0;   // kept blocks, or parts of them, that were given back
};

// Thread-safe, fork-safe. What is kept stays
//  - below `capacity`;
//  - below what makes allocated and kept blocks together kSlack times the most that was ever asked
//    for: so a program's memory stays what it was;
//  - below kAddressShare of the address space that others could map, where that is limited.
// Kept memory that no allocation needed for a while goes back to the system (age()). Under pressure
// (`machine` says that little is available) nothing is kept.
class BlockPool {
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

  // At least `bytes`, undefined contents. Null if the system has none, with nothing kept any more.
  void* allocate(size_t bytes);
  // Whether `data` is a block in use.
  bool owns(void* data) const;
  // Whether it may be one, by its address alone, which few others are.
  static bool may_own(const void* data);
  // Gives a block of allocate() back. Others are left alone.
  void release(void* data);

  // Gives back what was idle, or all of it under pressure. The pool has no thread for this: each
  // release and each new block do the same, and its owner calls this between them.
  void age();

  // Gives every kept block to the system. Returns their bytes.
  int64_t empty();
  // Whether any block may be kept, without a lock.
  bool keeps_any() const { return keeps_any_.load(std::memory_order_relaxed); }
  // Bytes that may be kept; negative: half of the memory there is.
  void set_capacity(int64_t bytes);

  PoolStats stats() const;
  void reset_peaks();

 private:
  struct Kept {
    std::byte* data;
    size_t bytes;
  };
  struct Used {
    size_t bytes;
    size_t wanted;
  };
  using Order = std::list<Kept>;  // longest kept first

  // The smallest kept block of at least `bytes`; what is left over of it is kept.
  void* take_kept(size_t bytes, size_t wanted);
  // Joins kept blocks that it touches.
  void keep(Kept block);
  void forget(Order::iterator place);
  // Where its contents begin.
  void* use(Kept block, size_t wanted);
  // Unmaps of the longest kept blocks what is too much for no more than `bytes` to be kept.
  void shrink_to(int64_t bytes);
  // Unmaps all of them, and what is free of huge pages that blocks in use have a part of.
  void give_all_back();
  int64_t kept() const { return stats_.reserved - stats_.allocated; }
  void note_least_kept() { least_kept_ = std::min(least_kept_, kept()); }
  bool under_pressure(size_t bytes, Time now);
  // Keeps no more than the limits allow, after a block of `released` bytes was freed or memory
  // became idle.
  void trim(size_t released);
  // Gives back what was kept during all of the window, if that has ended.
  void give_idle_back(Time now);
  // Drops parts of huge pages that are free but resident, if `limit` needs it.
  void drop_fragments(int64_t limit);
  int64_t address_allowance(size_t released, Time now);

  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::memory, this);  // guards all that follows
  Machine machine_;
  Address address_;
  Clock clock_;
  PageRuns pages_;
  int64_t capacity_ = 0;
  int64_t wanted_ = 0;       // bytes that were asked for, of blocks in use
  int64_t most_wanted_ = 0;  // the peak of that, never reset
  PoolStats stats_;
  Order order_;
  std::atomic<bool> keeps_any_{false};  // whether order_ has any
  std::multimap<size_t, Order::iterator> by_size_;
  std::map<std::byte*, Order::iterator> by_address_;
  std::unordered_map<void*, Used> used_;
  Time asked_{};
  MachineMemory answer_;
  Time space_asked_{};
  AddressSpace space_{.limit = 0, .available = 0};  // asked for at first
  Time window_began_{};
  std::chrono::seconds window_;
  int64_t least_kept_ = 0;  // in the window: memory that no allocation needed
  int64_t idle_given_ = 0;  // bytes given back as idle that were not mapped again
  int64_t regretted_ = 0;   // and those that were
};

}  // namespace cpuaccel::memory
