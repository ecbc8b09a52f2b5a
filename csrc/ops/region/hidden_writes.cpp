#include "ops/region/hidden_writes.h"

#include <mutex>
#include <unordered_map>

#include "base/fork.h"

namespace cpuaccel::ops {
namespace {

using Count = std::shared_ptr<std::atomic<uint64_t>>;

// Watched storages by address. Who watches one holds a weak pointer to it, so no other storage has
// its address.
struct WatchedStorages {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::leaf, this);
  std::unordered_map<const c10::StorageImpl*, Count> counts;
};

// Never destroyed: ops run while the process exits.
WatchedStorages& watched_storages() {
  static auto& instance = *std::make_unique<WatchedStorages>().release();
  return instance;
}

}  // namespace

std::atomic<uint64_t>& HiddenWriteCounts::noted() {
  static std::atomic<uint64_t> count{0};
  return count;
}

void note_hidden_write(const at::Tensor& tensor) {
  if (!tensor.has_storage()) {
    return;
  }
  auto& watched = watched_storages();
  const std::scoped_lock lock(watched.mutex);
  const auto found = watched.counts.find(tensor.storage().unsafeGetStorageImpl());
  if (found != watched.counts.end()) {
    found->second->fetch_add(1, std::memory_order_release);
    HiddenWriteCounts::noted().fetch_add(1, std::memory_order_release);
  }
}

HiddenWriteCounts::HiddenWriteCounts(at::TensorList tensors)
    : tensors_(tensors.size()), seen_(noted().load()) {
  auto& watched = watched_storages();
  const std::scoped_lock lock(watched.mutex);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    auto& each = tensors_[i];
    each.storage = tensors[i].storage().unsafeGetStorageImpl();
    auto& count = watched.counts[each.storage];
    if (!count) {
      count = std::make_shared<std::atomic<uint64_t>>(0);
    }
    each.writes = count;
    each.seen.store(count->load());
  }
}

HiddenWriteCounts::~HiddenWriteCounts() {
  auto& watched = watched_storages();
  const std::scoped_lock lock(watched.mutex);
  for (auto& each : tensors_) {
    each.writes.reset();
    const auto found = watched.counts.find(each.storage);
    if (found != watched.counts.end() && found->second.use_count() == 1) {
      watched.counts.erase(found);
    }
  }
}

}  // namespace cpuaccel::ops
