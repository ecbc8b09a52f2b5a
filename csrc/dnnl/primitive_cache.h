// The bounded cache of oneDNN primitives that all layers and products share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/api.h"
#include "dnnl/primitive.h"

namespace cpuaccel::dnnl_layer {

struct CacheStats {
  int64_t capacity = 0, size = 0, hits = 0, misses = 0, evictions = 0, bytes = 0;
};

// An LRU cache. A primitive that someone holds stays alive past its eviction.
class CPUACCEL_API PrimitiveCache {
 public:
  static PrimitiveCache& instance();

  // Returns the primitive for `problem`, created on a miss. Throws dnnl::error if oneDNN has none.
  // Two threads that miss at once may both create it; one of them is cached.
  std::shared_ptr<const Primitive> get(const AnyProblem& problem);

  // A layer that still holds its last primitive counts its hit here, without a lookup.
  void count_hit() { layer_hits_.fetch_add(1, std::memory_order_relaxed); }
  // Grows with every clear(), so that layers release the primitives that they hold.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // capacity >= 0; evicts at once whatever exceeds it. 0 caches nothing.
  void set_capacity(int64_t capacity);
  void clear();
  CacheStats stats();
  void reset_stats();

 private:
  PrimitiveCache();
  struct Entry {
    AnyProblem problem;
    std::shared_ptr<const Primitive> primitive;
  };
  struct Hash {
    size_t operator()(const AnyProblem& problem) const noexcept {
      return std::visit([](const auto& p) { return hash(p); }, problem);
    }
  };
  using LruList = std::list<Entry>;  // front: most recently used
  void evict_over(size_t capacity, LruList& evicted);

  std::mutex& mutex_;
  LruList lru_;
  std::unordered_map<AnyProblem, LruList::iterator, Hash> index_;
  size_t capacity_ = 1024;
  int64_t hits_ = 0, misses_ = 0, evictions_ = 0, bytes_ = 0;
  std::atomic<int64_t> layer_hits_{0};
  std::atomic<uint64_t> generation_{0};
};

}  // namespace cpuaccel::dnnl_layer
