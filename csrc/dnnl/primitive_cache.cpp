#include "dnnl/primitive_cache.h"

#include <utility>

#include "base/fork.h"

namespace cpuaccel::dnnl_layer {

PrimitiveCache& PrimitiveCache::instance() {
  static auto& cache = *std::unique_ptr<PrimitiveCache>(new PrimitiveCache).release();
  return cache;
}

// This is the only cache, so that eviction really frees a primitive: oneDNN's own cache is switched
// off. A forked child starts with an empty cache and zero counts.
PrimitiveCache::PrimitiveCache() : mutex_(fork_safe_mutex(ForkLevel::leaf, this)) {
  dnnl::set_primitive_cache_capacity(0);
  reset_after_fork([this] {
    lru_.clear();
    index_.clear();
    hits_ = misses_ = evictions_ = bytes_ = 0;
    layer_hits_.store(0);
    generation_.fetch_add(1);
  });
}

std::shared_ptr<const Primitive> PrimitiveCache::get(const AnyProblem& problem) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = index_.find(problem); found != index_.end()) {
      lru_.splice(lru_.begin(), lru_, found->second);
      ++hits_;
      return found->second->primitive;
    }
    ++misses_;
  }
  // Generating code takes milliseconds, so it happens outside of the lock.
  auto primitive = std::make_shared<const Primitive>(problem);
  LruList evicted;  // destroyed after the lock is released
  const std::scoped_lock lock(mutex_);
  if (const auto found = index_.find(problem); found != index_.end()) {
    return found->second->primitive;
  }
  lru_.push_front({problem, primitive});
  index_.emplace(problem, lru_.begin());
  bytes_ += static_cast<int64_t>(primitive->bytes());
  evict_over(capacity_, evicted);
  return primitive;
}

void PrimitiveCache::evict_over(size_t capacity, LruList& evicted) {
  while (lru_.size() > capacity) {
    const auto last = std::prev(lru_.end());
    bytes_ -= static_cast<int64_t>(last->primitive->bytes());
    index_.erase(last->problem);
    evicted.splice(evicted.begin(), lru_, last);
    ++evictions_;
  }
}

void PrimitiveCache::set_capacity(int64_t capacity) {
  LruList evicted;
  const std::scoped_lock lock(mutex_);
  capacity_ = static_cast<size_t>(capacity);
  evict_over(capacity_, evicted);
}

void PrimitiveCache::clear() {
  LruList dropped;
  const std::scoped_lock lock(mutex_);
  dropped.swap(lru_);
  index_.clear();
  bytes_ = 0;
  generation_.fetch_add(1, std::memory_order_release);
}

CacheStats PrimitiveCache::stats() {
  const std::scoped_lock lock(mutex_);
  return {static_cast<int64_t>(capacity_),
          static_cast<int64_t>(lru_.size()),
          hits_ + layer_hits_.load(std::memory_order_relaxed),
          misses_,
          evictions_,
          bytes_};
}

void PrimitiveCache::reset_stats() {
  const std::scoped_lock lock(mutex_);
  hits_ = misses_ = evictions_ = 0;
  layer_hits_.store(0, std::memory_order_relaxed);
}

}  // namespace cpuaccel::dnnl_layer
