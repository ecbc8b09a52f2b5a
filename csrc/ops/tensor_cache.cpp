#include "ops/tensor_cache.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/checksum/checksum.h"

namespace cpuaccel::ops {
namespace {

uint64_t checksum_of(const at::Tensor& source) {
  return kernels::checksum(source.const_data_ptr(), static_cast<int64_t>(source.nbytes()));
}

uint32_t version_of(const at::Tensor& source) {
  return source.unsafeGetTensorImpl()->version_counter().current_version();
}

int64_t bytes_of(const at::Tensor& made) { return static_cast<int64_t>(made.nbytes()); }

// A tensor made in inference mode could not be used outside of it.
at::Tensor made_by(const TensorCache::Make& make) {
  const c10::InferenceMode normal(false);
  const at::NoGradGuard no_grad;
  return make();
}

// Never destroyed: ops run while the process exits.
TensorCache& new_cache() { return *std::make_unique<TensorCache>().release(); }

}  // namespace

bool cacheable(const at::Tensor& source) {
  return !source.is_inference() && source.is_non_overlapping_and_dense() && source.numel() > 0;
}

TensorCache& weight_cache() {
  static auto& cache = new_cache();
  return cache;
}

TensorCache& index_cache() {
  static auto& cache = new_cache();
  return cache;
}

size_t TensorCache::Hash::operator()(const Key& key) const noexcept {
  size_t hash = 0;
  for (const auto& source : key.sources) {
    hash = hash * 31 + (reinterpret_cast<uintptr_t>(source.storage) >> 4);
    hash = hash * 31 + static_cast<size_t>(source.offset);
  }
  return hash;
}

// A forked child keeps the entries (their pages are shared until one is written) and restarts the
// counters.
TensorCache::TensorCache() {
  reset_after_fork([this] { stats_.hits = stats_.misses = stats_.stale = stats_.evictions = 0; });
}

TensorCache::Key TensorCache::key_of(Sources sources, int64_t form, const at::Tensor* constant) {
  Key key{form, {}};
  for (const at::Tensor* source : sources) {
    key.sources.push_back(identity_of(*source));
  }
  if (constant != nullptr) {
    key.sources.push_back(identity_of(*constant));
  }
  return key;
}

at::Tensor TensorCache::get(Sources sources, int64_t form, const Make& make,
                            const at::Tensor* constant) {
  if (!std::ranges::all_of(sources, [](const auto* each) { return cacheable(*each); })) {
    return made_by(make);
  }
  const Key key = key_of(sources, form, constant);
  std::vector<State> states;
  for (const at::Tensor* source : sources) {
    states.push_back({version_of(*source), 0});
  }
  std::optional<std::pair<std::vector<State>, at::Tensor>> cached;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = index_.find(key);
    if (found != index_.end() &&
        std::ranges::equal(found->second->states, states, {}, &State::version, &State::version)) {
      order_.splice(order_.begin(), order_, found->second);
      cached.emplace(found->second->states, found->second->made);
    }
  }
  // Taken before `make` reads the sources: a write in between makes the next call miss, not this
  // one stale.
  for (size_t i = 0; i < sources.size(); ++i) {
    states[i].checksum = checksum_of(*sources[i]);
  }
  if (cached && cached->first == states) {
    const std::scoped_lock lock(mutex_);
    ++stats_.hits;
    return cached->second;
  }
  at::Tensor made = made_by(make);
  Order dropped;  // destroyed after the lock is released
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
  Entry entry{key, {}, std::move(states), made};
  for (const at::Tensor* source : sources) {
    entry.storages.emplace_back(source->storage().getWeakStorageImpl());
  }
  if (constant != nullptr) {  // while this is held, no other storage has its address
    entry.storages.emplace_back(constant->storage().getWeakStorageImpl());
  }
  order_.push_front(std::move(entry));
  index_.emplace(key, order_.begin());
  stats_.bytes += bytes_of(made);
  shrink_to(stats_.capacity, dropped);
  return made;
}

void TensorCache::drop(Order::iterator entry, Order& dropped) {
  index_.erase(entry->key);
  stats_.bytes -= bytes_of(entry->made);
  dropped.splice(dropped.begin(), order_, entry);
}

void TensorCache::drop_expired(Order& dropped) {
  for (auto entry = order_.begin(); entry != order_.end();) {
    const auto next = std::next(entry);
    if (std::ranges::any_of(entry->storages, [](const auto& each) { return each.expired(); })) {
      drop(entry, dropped);
    }
    entry = next;
  }
}

void TensorCache::shrink_to(int64_t bytes, Order& dropped) {
  while (stats_.bytes > bytes) {
    drop(std::prev(order_.end()), dropped);
    ++stats_.evictions;
  }
}

void TensorCache::set_capacity(int64_t bytes) {
  Order dropped;
  const std::scoped_lock lock(mutex_);
  stats_.capacity = bytes;
  shrink_to(bytes, dropped);
}

void TensorCache::clear() {
  Order dropped;
  const std::scoped_lock lock(mutex_);
  dropped.swap(order_);
  index_.clear();
  stats_.bytes = 0;
}

at::Tensor cached_cast_of(const at::Tensor& weight, at::ScalarType type) {
  const std::array sources{&weight};
  return weight_cache().get(sources, static_cast<int64_t>(type), [&] { return weight.to(type); });
}

CacheStats TensorCache::stats() const {
  const std::scoped_lock lock(mutex_);
  auto result = stats_;
  result.size = static_cast<int64_t>(order_.size());
  return result;
}

void TensorCache::reset_stats() {
  const std::scoped_lock lock(mutex_);
  stats_.hits = stats_.misses = stats_.stale = stats_.evictions = 0;
}

}  // namespace cpuaccel::ops
