#include "plan/packed_weights.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "base/fork.h"
#include "base/huge_page_block.h"
#include "plan/engine.h"

namespace cpuaccel::plan {
namespace {

// Of all objects. Two threads that pack at the same time may exceed the limit by one weight.
std::atomic<size_t> held = 0;
std::atomic<size_t> limit = std::numeric_limits<size_t>::max();

}  // namespace

PackedWeights::PackedWeights() : mutex_(fork_safe_mutex(ForkLevel::layer, this)) {}

PackedWeights::~PackedWeights() { held -= bytes_; }

bool PackedWeights::has_room(size_t bytes) {
  const size_t taken = held, most = limit;
  return taken <= most && bytes <= most - taken;
}

bool PackedWeights::has_room(Id id, DataType type, size_t bytes) const {
  const std::scoped_lock lock(mutex_);
  return cached_.contains({id, type}) || has_room(bytes);
}

void PackedWeights::set_limit(int64_t bytes) { limit = static_cast<size_t>(bytes); }

void PackedWeights::count(size_t bytes) {
  bytes_ += bytes;
  held += bytes;
}

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
  count(wanted.get_size());
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
