#include "ops/weight_cache.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <memory>
#include <optional>
#include <utility>

#include "kernels/checksum/checksum.h"

namespace cpuaccel::ops {
namespace {

uint64_t checksum_of(const at::Tensor& weight) {
  return kernels::checksum(weight.const_data_ptr(), static_cast<int64_t>(weight.nbytes()));
}

uint32_t version_of(const at::Tensor& weight) {
  return weight.unsafeGetTensorImpl()->version_counter().current_version();
}

// Whether its bytes are one piece of memory, and writes to it are counted.
bool keepable(const at::Tensor& weight) {
  return !weight.is_inference() && weight.is_non_overlapping_and_dense() && weight.numel() > 0;
}

int64_t bytes_of(const at::Tensor& made) { return static_cast<int64_t>(made.nbytes()); }

}  // namespace

size_t WeightCache::Hash::operator()(const Key& key) const noexcept {
  return (reinterpret_cast<uintptr_t>(key.storage) >> 4) * 31 + static_cast<size_t>(key.offset);
}

WeightCache& WeightCache::instance() {
  static auto& cache = *std::unique_ptr<WeightCache>(new WeightCache).release();
  return cache;
}

// A forked child keeps what there is (its pages are shared until somebody writes) and counts anew.
WeightCache::WeightCache() {
  reset_after_fork([this] { stats_.hits = stats_.misses = stats_.stale = stats_.evictions = 0; });
}

WeightCache::Key WeightCache::key_of(const at::Tensor& weight, int form) {
  Key key{weight.storage().unsafeGetStorageImpl(),
          form,
          weight.storage_offset(),
          weight.scalar_type(),
          {}};
  key.sizes_strides.append(weight.sizes().begin(), weight.sizes().end());
  key.sizes_strides.append(weight.strides().begin(), weight.strides().end());
  return key;
}

at::Tensor WeightCache::get(const at::Tensor& weight, int form, const Make& make) {
  if (!keepable(weight)) {
    return make(weight);
  }
  const Key key = key_of(weight, form);
  const uint32_t version = version_of(weight);
  std::optional<std::pair<uint64_t, at::Tensor>> kept;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = index_.find(key);
    if (found != index_.end() && found->second->version == version) {
      order_.splice(order_.begin(), order_, found->second);
      kept.emplace(found->second->checksum, found->second->made);
    }
  }
  // Before it is read for `make`: a write in between makes the next call miss, not this one stale.
  const uint64_t checksum = checksum_of(weight);
  if (kept && kept->first == checksum) {
    const std::scoped_lock lock(mutex_);
    ++stats_.hits;
    return kept->second;
  }
  at::Tensor made = make(weight);
  Order dropped;  // destroyed after the lock is gone
  const std::scoped_lock lock(mutex_);
  ++stats_.misses;
  drop_expired(dropped);
  if (const auto found = index_.find(key); found != index_.end()) {
    ++stats_.stale;
    drop(found->second, dropped);
  }
  if (bytes_of(made) > stats_.capacity) {
    return made;
  }
  order_.push_front(
      Entry{key, c10::weak_intrusive_ptr<c10::StorageImpl>(weight.storage().getWeakStorageImpl()),
            version, checksum, made});
  index_.emplace(key, order_.begin());
  stats_.bytes += bytes_of(made);
  shrink_to(stats_.capacity, dropped);
  return made;
}

void WeightCache::drop(Order::iterator entry, Order& dropped) {
  index_.erase(entry->key);
  stats_.bytes -= bytes_of(entry->made);
  dropped.splice(dropped.begin(), order_, entry);
}

void WeightCache::drop_expired(Order& dropped) {
  for (auto entry = order_.begin(); entry != order_.end();) {
    const auto next = std::next(entry);
    if (entry->storage.expired()) {
      drop(entry, dropped);
    }
    entry = next;
  }
}

void WeightCache::shrink_to(int64_t bytes, Order& dropped) {
  while (stats_.bytes > bytes) {
    drop(std::prev(order_.end()), dropped);
    ++stats_.evictions;
  }
}

void WeightCache::set_capacity(int64_t bytes) {
  Order dropped;
  const std::scoped_lock lock(mutex_);
  stats_.capacity = bytes;
  shrink_to(bytes, dropped);
}

void WeightCache::clear() {
  Order dropped;
  const std::scoped_lock lock(mutex_);
  dropped.swap(order_);
  index_.clear();
  stats_.bytes = 0;
}

at::Tensor kept_cast(const at::Tensor& weight, at::ScalarType type) {
  return WeightCache::instance().get(weight, static_cast<int>(type), [type](const at::Tensor& w) {
    // What is made in inference mode could not be used outside of it.
    const c10::InferenceMode normal(false);
    const at::NoGradGuard no_grad;
    return w.to(type);
  });
}

WeightCacheStats WeightCache::stats() const {
  const std::scoped_lock lock(mutex_);
  auto result = stats_;
  result.size = static_cast<int64_t>(order_.size());
  return result;
}

void WeightCache::reset_stats() {
  const std::scoped_lock lock(mutex_);
  stats_.hits = stats_.misses = stats_.stale = stats_.evictions = 0;
}

}  // namespace cpuaccel::ops
