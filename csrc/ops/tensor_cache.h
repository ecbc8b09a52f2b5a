// Cache of tensors that are derived from others: a weight cast to another type, a graph's edges in
// another order. The source tensors are the key.
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

// A cached tensor is used again while each source has the storage, offset, sizes, strides, type,
// version and bytes that it had. Each hit reads all bytes, because a write through `.data` or numpy
// leaves the version alone. Sources without a version (of inference mode) are not cached. Least
// recently used entries go first; the next miss drops entries whose source storage is gone.
class TensorCache {
 public:
  using Make = std::function<at::Tensor()>;
  using Sources = std::span<const at::Tensor* const>;

  TensorCache();

  // Returns make(), run outside of inference mode and autograd, or its cached result for the same
  // sources and `form`. `constant` is one more source that nobody writes to, such as a result of
  // this cache: only its identity is compared, not its bytes.
  at::Tensor get(Sources sources, int64_t form, const Make& make,
                 const at::Tensor* constant = nullptr);

  // The capacity in bytes, 0 or more. Entries above it are dropped at once.
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
  // The state of a source when the entry was made.
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
  using Order = std::list<Entry>;  // front: most recently used

  static Key key_of(Sources sources, int64_t form, const at::Tensor* constant);
  void drop(Order::iterator entry, Order& dropped);
  void drop_expired(Order& dropped);
  void shrink_to(int64_t bytes, Order& dropped);

  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::leaf, this);
  Order order_;
  std::unordered_map<Key, Order::iterator, Hash> index_;
  CacheStats stats_;
};

// Whether a result made from `source` may be cached: its bytes are one piece of memory, and writes
// to it are counted.
bool cacheable(const at::Tensor& source);

TensorCache& weight_cache();  // weights cast to another type, or packed

// Forms of the weight cache: the type cast to, or one of these plus the columns of a panel.
inline constexpr int64_t kPanelsForm = int64_t{1} << 16;
inline constexpr int64_t kPairsForm = int64_t{2} << 16;

TensorCache& index_cache();  // sorted edges and transposed graphs

// `weight` cast to another type, from the weight cache.
at::Tensor cached_cast_of(const at::Tensor& weight, at::ScalarType type);

}  // namespace cpuaccel::ops
