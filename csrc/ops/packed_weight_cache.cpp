#include "ops/packed_weight_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/fork.h"

namespace cpuaccel::ops {
namespace {

int64_t bytes_of(const CachedPackedWeight& packed) {
  return (packed.values.defined() ? static_cast<int64_t>(packed.values.nbytes()) : 0) +
         (packed.int8 ? packed.int8->bytes : 0) +
         (packed.groups ? static_cast<int64_t>(packed.groups->bytes()) : 0);
}

// What tells the ISAs apart that pack differently: the width of a panel, the row of qgemm's list,
// or nothing.
int64_t isa_key(WeightForm form) {
  switch (form) {
    case WeightForm::int8: {
      const auto rows = kernels::qgemm_kernels();
      return &kernels::first_usable(rows) - rows.data();
    }
    case WeightForm::groups4:
    case WeightForm::groups8:
    case WeightForm::torch_int4:
    case WeightForm::torch_dyn_quant_4bit:
      return 0;
    default:
      return panel_in_use(form == WeightForm::pairs);
  }
}

}  // namespace

PackedWeightCache& PackedWeightCache::instance() {
  static auto& cache = *std::unique_ptr<PackedWeightCache>(new PackedWeightCache).release();
  return cache;
}

PackedWeightCache::PackedWeightCache() : mutex_(fork_safe_mutex(ForkLevel::params, this)) {
  reset_after_fork([this] { stats_.hits = stats_.misses = stats_.stale = stats_.evictions = 0; });
}

CachedPackedWeight PackedWeightCache::get(const at::Tensor& weight, bool pairs) {
  return get(weight, pairs ? WeightForm::pairs : WeightForm::panels,
             [&] { return pack_for_cache(weight, pairs); });
}

std::shared_ptr<const kernels::QgemmWeights> PackedWeightCache::get_int8(const at::Tensor& weight) {
  return get(weight, WeightForm::int8,
             [&] {
               const kernels::QgemmPlain plain{.data = weight.const_data_ptr<int8_t>(),
                                               .K = weight.size(1),
                                               .N = weight.size(0),
                                               .k_stride = weight.stride(1),
                                               .n_stride = weight.stride(0)};
               CachedPackedWeight packed;
               packed.int8 =
                   std::make_shared<const kernels::QgemmWeights>(kernels::qgemm_pack(plain));
               return packed;
             })
      .int8;
}

CachedPackedWeight PackedWeightCache::get(at::TensorList made_of, WeightForm form,
                                          const Make& make) {
  const int64_t panel = isa_key(form);
  std::shared_ptr<Entry> entry;
  {
    const std::scoped_lock lock(mutex_);
    entry = find(made_of, form, panel);
  }
  // Bytes are read without the lock, so that other threads can run.
  const bool unchanged = entry && entry->watched.unchanged(made_of);
  const std::scoped_lock lock(mutex_);
  if (unchanged) {
    ++stats_.hits;
    return entry->packed;
  }
  ++stats_.misses;
  drop_expired();
  drop_changed(made_of, entry.get());
  // Watched before it is read for packing: the next call notices a write in between.
  entry = std::make_shared<Entry>(made_of, form, panel);
  entry->packed = make();
  const CachedPackedWeight packed = entry->packed;
  if (bytes_of(packed) <= stats_.capacity) {
    order_.push_front(std::move(entry));
    index_.emplace(order_.front()->key, order_.begin());
    stats_.bytes += bytes_of(packed);
    shrink_to(stats_.capacity);
  }
  return packed;
}

std::shared_ptr<PackedWeightCache::Entry> PackedWeightCache::find(at::TensorList made_of,
                                                                  WeightForm form, int64_t panel) {
  const auto [begin, end] = index_.equal_range(key_of(made_of));
  for (auto each = begin; each != end; ++each) {
    const auto& entry = *each->second;
    if (entry->form == form && entry->panel == panel && entry->watched.are(made_of)) {
      order_.splice(order_.begin(), order_, each->second);
      return entry;
    }
  }
  return nullptr;
}

void PackedWeightCache::drop(Entries::iterator entry) {
  const auto [begin, end] = index_.equal_range((*entry)->key);
  index_.erase(std::find_if(begin, end, [&](const auto& each) { return each.second == entry; }));
  stats_.bytes -= bytes_of((*entry)->packed);
  order_.erase(entry);
}

void PackedWeightCache::drop_expired() {
  for (auto entry = order_.begin(); entry != order_.end();) {
    const auto next = std::next(entry);
    if ((*entry)->watched.expired()) {
      drop(entry);
    }
    entry = next;
  }
}

void PackedWeightCache::drop_changed(at::TensorList made_of, const Entry* changed) {
  std::vector<Entries::iterator> outdated;
  const auto [begin, end] = index_.equal_range(key_of(made_of));
  for (auto each = begin; each != end; ++each) {
    const auto& entry = *each->second;
    if (entry.get() == changed || !entry->watched.are(made_of)) {
      outdated.push_back(each->second);
    }
  }
  stats_.stale += static_cast<int64_t>(outdated.size());
  for (const auto entry : outdated) {
    drop(entry);
  }
}

void PackedWeightCache::shrink_to(int64_t bytes) {
  while (stats_.bytes > bytes) {
    drop(std::prev(order_.end()));
    ++stats_.evictions;
  }
}

void PackedWeightCache::set_capacity(int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  stats_.capacity = bytes;
  shrink_to(bytes);
}

void PackedWeightCache::clear() {
  const std::scoped_lock lock(mutex_);
  order_.clear();
  index_.clear();
  stats_.bytes = 0;
}

CacheStats PackedWeightCache::stats() {
  const std::scoped_lock lock(mutex_);
  auto result = stats_;
  result.size = static_cast<int64_t>(order_.size());
  return result;
}

void PackedWeightCache::reset_stats() {
  const std::scoped_lock lock(mutex_);
  stats_.hits = stats_.misses = stats_.stale = stats_.evictions = 0;
}

}  // namespace cpuaccel::ops
