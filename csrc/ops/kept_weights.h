// Weights of compiled graphs in packed form: what kept_linear and saved_linear read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ops/cache_stats.h"
#include "ops/graph/watch.h"
#include "ops/prepack/packed_weight.h"

namespace cpuaccel::ops {

// What became of a weight: panels of its type, pairs of bfloat16, or what bytes of a file have.
enum class WeightForm { panels, pairs, bytes };

// A weight is packed at its first use, and again when it has changed: it is looked at in every call
// as those of graph regions are (WatchedTensors). What was made of one that is gone goes at the
// next miss; least recently used goes where they take more than the capacity.
class KeptWeights {
 public:
  static KeptWeights& instance();

  // `weight` (out_features x in_features, dense) as packed_linear takes it: in panels of its type,
  // or in pairs of bfloat16.
  KeptPacked get(const at::Tensor& weight, bool pairs);

  // make(), or what it returned before for the same `weight` and form under the same instructions.
  // It may hold no memory of `weight`.
  using Make = std::function<KeptPacked()>;
  KeptPacked get(const at::Tensor& weight, WeightForm form, const Make& make);

  void set_capacity(int64_t bytes);
  void clear();
  CacheStats stats();
  void reset_stats();

 private:
  KeptWeights();

  struct Entry {
    Entry(const at::Tensor& weight, WeightForm made_in, int64_t made_for)
        : watched(weight), data(weight.const_data_ptr()), form(made_in), panel(made_for) {}

    WatchedTensors watched;
    const void* data;
    WeightForm form;
    int64_t panel;  // of the instructions that it was made for
    KeptPacked packed;
  };
  using Entries = std::list<std::shared_ptr<Entry>>;  // front: used last

  std::shared_ptr<Entry> find(const at::Tensor& weight, WeightForm form, int64_t panel);
  void drop(Entries::iterator entry);
  void drop_expired();
  // What was made of `weight` before it was written to: of another version, and `changed`.
  void drop_changed(const at::Tensor& weight, const Entry* changed);
  void shrink_to(int64_t bytes);

  std::mutex& mutex_;
  Entries order_;
  std::unordered_multimap<const void*, Entries::iterator> index_;  // by Entry::data
  CacheStats stats_;
};

}  // namespace cpuaccel::ops
