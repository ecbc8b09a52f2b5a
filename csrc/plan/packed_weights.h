// Cache of packed weights: a region's weights in the layouts that its layers read.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/api.h"
#include "base/scratch.h"
#include "plan/region.h"

namespace cpuaccel::plan {

// The packed weights of one set of a region's weights. Weights that are read in one way are packed
// once for each layout; plans for all input sizes share them.
class CPUACCEL_API PackedWeights {
 public:
  PackedWeights();
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  // Whether packed weights of this many bytes more stay within the limit of all plans together.
  // Products that can read plain weights ask; other layers pack in any case.
  static bool has_room(size_t bytes);
  // The same for what `cached` makes, which takes no room if it is made already.
  bool has_room(Id id, DataType type, size_t bytes) const;
  static void set_limit(int64_t bytes);

  // The weights `id` in the layout `wanted`. Their data is at `data` in the layout `plain`.
  std::shared_ptr<const std::byte[]> get(Id id, const void* data, const dnnl::memory::desc& plain,
                                         const dnnl::memory::desc& wanted);
  // What `make` makes of weights for the op that writes `id` and multiplies in `type`. It is made
  // once, and lives as long as this cache.
  template <class T>
  std::shared_ptr<T> cached(Id id, DataType type, const std::function<std::shared_ptr<T>()>& make) {
    const std::scoped_lock lock(mutex_);
    auto& made = cached_[{id, type}];
    if (!made) {
      auto fresh = make();
      if constexpr (requires { fresh->bytes(); }) {  // other types pack at their first run
        count(static_cast<size_t>(fresh->bytes()));
      }
      made = std::move(fresh);
    }
    return std::static_pointer_cast<T>(made);
  }
  // The layouts in which `id` is packed already, among those that are read as `plain` says: another
  // one may be the transpose.
  std::vector<dnnl::memory::desc> layouts(Id id, const dnnl::memory::desc& plain) const;

  size_t bytes() const;

 private:
  struct Packed {
    dnnl::memory::desc plain, layout;
    std::shared_ptr<const std::byte[]> block;
  };
  // Called with the lock.
  void count(size_t bytes);

  std::mutex& mutex_;
  std::map<Id, std::vector<Packed>> packed_;
  std::map<std::pair<Id, DataType>, std::shared_ptr<void>> cached_;
  size_t bytes_ = 0;
};

}  // namespace cpuaccel::plan
