// What was made of tensors (a weight in another type, a graph's edges in another order), kept by
// the tensors that it was made of.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/fork.h"
#include "ops/cache_stats.h"
#include "ops/tensor_identity.h"

namespace cpuaccel::ops {

// What was made of tensors is used again while each has the storage, offset, sizes, strides, type,
// version and bytes that it had. All bytes are read at every hit: a write through `.data` or numpy
// leaves the version alone. Of tensors without a version (of inference mode) nothing is kept.
// Least recently used goes first; what was made of storage that is gone goes at the next miss.
class TensorCache {
 public:
  using Make = std::function<at::Tensor()>;
  using Sources = std::span<const at::Tensor* const>;

  TensorCache();

  // make(), outside of inference mode and autograd, or what it returned before for the same sources
  // and `form`. `own` is one more of them
  // that nobody writes to, such as what this cache returned: its storage alone has to be the same.
  at::Tensor get(Sources sources, int64_t form, const Make& make, const at::Tensor* own = nullptr);

  // Bytes of what is kept, 0 or more. What is over it goes at once.
  void set_capacity(int64_t bytes);
  void clear();
  CacheStats stats() const;
  void reset_stats();

 private:
  struct Key {
    int64_t form;
    std::vector<TensorIdentity> sources;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const noexcept;
  };
  // What a source was when something was made of it.
  struct State {
    uint32_t version;
    uint64_t checksum;
    bool operator==(const State&) const = default;
  };
  struct Entry {
    Key key;
    std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages;
    std::vector<State> states;
    at::Tensor made;
  };
  using Order = std::list<Entry>;  // front: used last

  static Key key_of(Sources sources, int64_t form, const at::Tensor* own);
  void drop(Order::iterator entry, Order& dropped);
  void drop_expired(Order& dropped);
  void shrink_to(int64_t bytes, Order& dropped);

  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::leaf, this);
  Order order_;
  std::unordered_map<Key, Order::iterator, Hash> index_;
  CacheStats stats_;
};

// Whether something made of `source` may be kept: its bytes are one piece of memory, and writes to
// it are counted.
bool keepable(const at::Tensor& source);

TensorCache& weight_cache();  // weights in another type, or packed

// Forms of the weight cache: a type that was cast to, or one of these and the columns of a panel.
inline constexpr int64_t kPanelsForm = int64_t{1} << 16;
inline constexpr int64_t kPairsForm = int64_t{2} << 16;

TensorCache& index_cache();  // transposed graphs

// `weight` in another type, kept for the next time.
at::Tensor kept_cast(const at::Tensor& weight, at::ScalarType type);

}  // namespace cpuaccel::ops
