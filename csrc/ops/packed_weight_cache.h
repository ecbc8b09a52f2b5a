// Cache of packed weights of compiled graphs and of int8 weights: kept_linear, saved_linear and
// int8_linear read it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ops/cache_stats.h"
#include "ops/prepack/packed_weight.h"
#include "ops/region/watch.h"

namespace cpuaccel::ops {

// The form of the packed weight: panels of its own type, pairs of bfloat16, panels made from the
// bytes of a file, or int8 as family qgemm reads it.
enum class WeightForm { panels, pairs, bytes, int8 };

// A weight is packed at its first use, and again after a change. Each call looks for changes, as it
// does for the weights of graph regions (WatchedTensors). The next miss drops entries whose weight
// is gone. Above the capacity the least recently used entry goes first.
class PackedWeightCache {
 public:
  static PackedWeightCache& instance();

  // `weight` (out_features x in_features, dense) as packed_linear takes it: in panels of its type,
  // or in pairs of bfloat16.
  CachedPackedWeight get(const at::Tensor& weight, bool pairs);

  // Returns make(), or its cached result for the same `weight`, form and ISA. The result must not
  // alias the memory of `weight`.
  using Make = std::function<CachedPackedWeight()>;
  CachedPackedWeight get(const at::Tensor& weight, WeightForm form, const Make& make);

  // `weight` (out_features x in_features, int8, dense) as family qgemm reads it.
  std::shared_ptr<const kernels::QgemmWeights> get_int8(const at::Tensor& weight);

  void set_capacity(int64_t bytes);
  void clear();
  CacheStats stats();
  void reset_stats();

 private:
  PackedWeightCache();

  struct Entry {
    Entry(const at::Tensor& weight, WeightForm made_in, int64_t made_for)
        : watched(weight), data(weight.const_data_ptr()), form(made_in), panel(made_for) {}

    WatchedTensors watched;
    const void* data;
    WeightForm form;
    int64_t panel;  // for the ISA that it was packed for
    CachedPackedWeight packed;
  };
  using Entries = std::list<std::shared_ptr<Entry>>;  // front: most recently used

  std::shared_ptr<Entry> find(const at::Tensor& weight, WeightForm form, int64_t panel);
  void drop(Entries::iterator entry);
  void drop_expired();
  // Drops entries made of `weight` before it changed: those of another version, and `changed`.
  void drop_changed(const at::Tensor& weight, const Entry* changed);
  void shrink_to(int64_t bytes);

  std::mutex& mutex_;
  Entries order_;
  std::unordered_multimap<const void*, Entries::iterator> index_;  // by Entry::data
  CacheStats stats_;
};

}  // namespace cpuaccel::ops
