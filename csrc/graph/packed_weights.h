// Weights in the layouts that layers ask for.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/scratch.h"
#include "graph/program.h"

namespace cpuaccel::graph {

// One set of a program's weights, packed. Each layout of what is read in one way is packed once,
// whichever sizes of inputs ask for it.
class PackedWeights {
 public:
  PackedWeights();

  // The weights `id`, which lie at `data` as `plain` says, in the layout `wanted`.
  std::shared_ptr<const std::byte[]> get(Id id, const void* data, const dnnl::memory::desc& plain,
                                         const dnnl::memory::desc& wanted);
  // What is made of weights in another form, for the op that writes `id` to multiply in `type`:
  // made once. It is kept as long as the weights are.
  template <class T>
  std::shared_ptr<T> kept(Id id, DataType type, const std::function<std::shared_ptr<T>()>& make) {
    const std::scoped_lock lock(mutex_);
    auto& made = kept_[{id, type}];
    if (!made) {
      auto fresh = make();
      if constexpr (requires { fresh->bytes(); }) {  // others pack when they run first
        bytes_ += static_cast<size_t>(fresh->bytes());
      }
      made = std::move(fresh);
    }
    return std::static_pointer_cast<T>(made);
  }
  // The layouts in which `id` is there, of those that are read as `plain` says: one may be the
  // transpose of another.
  std::vector<dnnl::memory::desc> layouts(Id id, const dnnl::memory::desc& plain) const;

  size_t bytes() const;

 private:
  struct Packed {
    dnnl::memory::desc plain, layout;
    std::shared_ptr<const std::byte[]> block;
  };
  std::mutex& mutex_;
  std::map<Id, std::vector<Packed>> packed_;
  std::map<std::pair<Id, DataType>, std::shared_ptr<void>> kept_;
  size_t bytes_ = 0;
};

}  // namespace cpuaccel::graph
