#include "base/fork.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace cpuaccel {

struct ForkRegistry {
  std::mutex mutex;
  std::vector<ForkGuard*> guards;

  static ForkRegistry& instance() {
    static auto& registry = *std::make_unique<ForkRegistry>().release();
    return registry;
  }

  ForkRegistry() {
    pthread_atfork([] { instance().before(); }, [] { instance().after(false); },
                   [] { instance().after(true); });
  }

  void before() {
    mutex.lock();
    for (auto* guard : guards) {
      guard->mutex_.lock();
    }
  }

  void after(bool in_child) {
    for (auto* guard : guards) {
      if (in_child) {
        guard->reset_in_child_();
      }
      guard->mutex_.unlock();
    }
    mutex.unlock();
  }
};

ForkGuard::ForkGuard(std::mutex& mutex, std::function<void()> reset_in_child)
    : mutex_(mutex), reset_in_child_(std::move(reset_in_child)) {
  auto& registry = ForkRegistry::instance();
  const std::scoped_lock lock(registry.mutex);
  registry.guards.push_back(this);
}

ForkGuard::~ForkGuard() {
  auto& registry = ForkRegistry::instance();
  const std::scoped_lock lock(registry.mutex);
  std::erase(registry.guards, this);
}

}  // namespace cpuaccel
