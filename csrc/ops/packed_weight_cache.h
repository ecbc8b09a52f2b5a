// Cache of packed weights of compiled graphs and of integer weights: kept_linear, saved_linear,
// int8_linear, intx_linear, _weight_int4pack_mm_for_cpu and _dyn_quant_matmul_4bit read it.
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
// bytes of a file, int8 as family qgemm reads it, or codes by groups as family gemm_wq reads them,
// made of plain codes (4 or 8 bits), of torch's packed int4, or of torch's floats of codes.
enum class WeightForm {
  panels,
  pairs,
  bytes,
  int8,
  groups4,
  groups8,
  torch_int4,
  torch_dyn_quant_4bit
};

// A weight is packed at its first use, and again after a change. Each call looks for changes, as it
// does for the weights of graph regions (WatchedTensors). The next miss drops entries whose weight
// is gone. Above the capacity the least recently used entry goes first.
class PackedWeightCache {
 public:
  static PackedWeightCache& instance();

  // `weight` (out_features x in_features, dense) as packed_linear takes it: in panels of its type,
  // or in pairs of bfloat16.
  CachedPackedWeight get(const at::Tensor& weight, bool pairs);

  // Returns make(), or its cached result for the same tensors, form and ISA. `made_of` are the
  // weight and what else it is packed from, such as scales. The result must not alias their memory.
  using Make = std::function<CachedPackedWeight()>;
  CachedPackedWeight get(at::TensorList made_of, WeightForm form, const Make& make);

  // `weight` (out_features x in_features, int8, dense) as family qgemm reads it.
  std::shared_ptr<const kernels::QgemmWeights> get_int8(const at::Tensor& weight);

  void set_capacity(int64_t bytes);
  void clear();
  CacheStats stats();
  void reset_stats();

 private:
  PackedWeightCache();

  // Of the weight's storage and offset, because its storage may be allocated anew elsewhere.
  static uintptr_t key_of(at::TensorList made_of) {
    const at::Tensor& weight = made_of.front();
    return reinterpret_cast<uintptr_t>(weight.storage().unsafeGetStorageImpl()) +
           static_cast<uintptr_t>(weight.storage_offset());
  }

  struct Entry {
    Entry(at::TensorList made_of, WeightForm made_in, int64_t made_for)
        : watched(made_of), key(key_of(made_of)), form(made_in), panel(made_for) {}

    WatchedTensors watched;
    uintptr_t key;
    WeightForm form;
    int64_t panel;  // for the ISA that it was packed for
    CachedPackedWeight packed;
  };
  using Entries = std::list<std::shared_ptr<Entry>>;  // front: most recently used

  std::shared_ptr<Entry> find(at::TensorList made_of, WeightForm form, int64_t panel);
  void drop(Entries::iterator entry);
  void drop_expired();
  // Drops entries made of these tensors before they changed: those of another version, and
  // `changed`.
  void drop_changed(at::TensorList made_of, const Entry* changed);
  void shrink_to(int64_t bytes);

  std::mutex& mutex_;
  Entries order_;
  std::unordered_multimap<uintptr_t, Entries::iterator> index_;  // by Entry::key
  CacheStats stats_;
};

}  // namespace cpuaccel::ops
