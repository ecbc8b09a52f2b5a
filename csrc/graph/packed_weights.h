// Weights in the layouts that layers ask for.
#pragma once

#include <cstddef>
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
  size_t bytes_ = 0;
};

}  // namespace cpuaccel::graph
