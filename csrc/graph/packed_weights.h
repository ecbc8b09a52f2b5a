// Weights in the layouts that layers ask for.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/scratch.h"
#include "graph/program.h"

namespace cpuaccel::graph {

// One set of a program's weights, packed. Each layout is packed once, whichever sizes of inputs ask
// for it.
class PackedWeights {
 public:
  PackedWeights();

  // The weights `id`, which lie at `data` as `plain` says, in the layout `wanted`.
  std::shared_ptr<const std::byte[]> get(Id id, const void* data, const dnnl::memory::desc& plain,
                                         const dnnl::memory::desc& wanted);
  // What is made of weights in another form, for the op that writes `id`: made once. It is kept as
  // long as the weights are.
  template <class T>
  std::shared_ptr<T> kept(Id id, const std::function<std::shared_ptr<T>()>& make) {
    const std::scoped_lock lock(mutex_);
    auto& made = kept_[id];
    if (!made) {
      made = make();
    }
    return std::static_pointer_cast<T>(made);
  }
  // The layouts in which `id` is there.
  std::vector<dnnl::memory::desc> layouts(Id id) const;

  size_t bytes() const;

 private:
  struct Packed {
    dnnl::memory::desc layout;
    std::shared_ptr<const std::byte[]> block;
  };
  std::mutex& mutex_;
  std::map<Id, std::vector<Packed>> packed_;
  std::map<Id, std::shared_ptr<void>> kept_;
  size_t bytes_ = 0;
};

}  // namespace cpuaccel::graph
