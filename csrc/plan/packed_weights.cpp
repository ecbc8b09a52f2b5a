#include "plan/packed_weights.h"

#include <algorithm>
#include <utility>

#include "base/fork.h"
#include "base/huge_page_block.h"
#include "plan/engine.h"

namespace cpuaccel::plan {

PackedWeights::PackedWeights() : mutex_(fork_safe_mutex(ForkLevel::layer, this)) {}

std::shared_ptr<const std::byte[]> PackedWeights::get(Id id, const void* data,
                                                      const dnnl::memory::desc& plain,
                                                      const dnnl::memory::desc& wanted) {
  const std::scoped_lock lock(mutex_);
  auto& layouts = packed_[id];
  const auto found = std::find_if(layouts.begin(), layouts.end(), [&](const Packed& packed) {
    return packed.plain == plain && packed.layout == wanted;
  });
  if (found != layouts.end()) {
    return found->block;
  }
  std::shared_ptr<std::byte[]> block(huge_page_block(wanted.get_size()));
  // oneDNN takes no const pointers, but the source is only read.
  dnnl::memory from(plain, engine(), const_cast<void*>(data));
  dnnl::memory to(wanted, engine(), block.get());
  dnnl::reorder(from, to).execute(stream(), from, to);
  bytes_ += wanted.get_size();
  layouts.push_back({plain, wanted, block});
  return block;
}

std::vector<dnnl::memory::desc> PackedWeights::layouts(Id id,
                                                       const dnnl::memory::desc& plain) const {
  const std::scoped_lock lock(mutex_);
  std::vector<dnnl::memory::desc> result;
  if (const auto found = packed_.find(id); found != packed_.end()) {
    for (const auto& packed : found->second) {
      if (packed.plain == plain) {
        result.push_back(packed.layout);
      }
    }
  }
  return result;
}

size_t PackedWeights::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

}  // namespace cpuaccel::plan
