// Weights in another form (another type, a packed layout), kept by the tensor they were made of.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <unordered_map>

#include "base/fork.h"

namespace cpuaccel::ops {

struct WeightCacheStats {
  int64_t capacity = 0, size = 0, bytes = 0;
  int64_t hits = 0, misses = 0, stale = 0, evictions = 0;
};

// What was made of a tensor is used again while the tensor has the storage, offset, sizes, strides,
// type, version and bytes that it had. All bytes are read at every hit: a write through `.data` or
// numpy leaves the version alone. Tensors without a version (of inference mode) are not kept.
// Least recently used goes first; what was made of storage that is gone goes at the next miss.
class WeightCache {
 public:
  using Make = std::function<at::Tensor(const at::Tensor& weight)>;

  static WeightCache& instance();

  // make(weight), or what it returned before for the same `form`.
  at::Tensor get(const at::Tensor& weight, int form, const Make& make);

  // Bytes of what is kept, 0 or more. What is over it goes at once.
  void set_capacity(int64_t bytes);
  void clear();
  WeightCacheStats stats() const;
  void reset_stats();

 private:
  WeightCache();

  struct Key {
    const c10::StorageImpl* storage;
    int form;
    int64_t offset;
    at::ScalarType type;
    c10::SmallVector<int64_t, 8> sizes_strides;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const noexcept;
  };
  struct Entry {
    Key key;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    uint32_t version;
    uint64_t checksum;
    at::Tensor made;
  };
  using Order = std::list<Entry>;  // front: used last

  static Key key_of(const at::Tensor& weight, int form);
  void drop(Order::iterator entry, Order& dropped);
  void drop_expired(Order& dropped);
  void shrink_to(int64_t bytes, Order& dropped);

  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::leaf, this);
  Order order_;
  std::unordered_map<Key, Order::iterator, Hash> index_;
  WeightCacheStats stats_;
};

// `weight` in another type, kept for the next time.
at::Tensor kept_cast(const at::Tensor& weight, at::ScalarType type);

}  // namespace cpuaccel::ops
