#include "base/fork.h"

#include <pthread.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace cpuaccel {
namespace {

// A fixed pool of locks: locks with the lifetime of their owners could be created or destroyed
// during a fork.
constexpr size_t kMutexesPerLevel = 32;

class ForkLocks {
 public:
  // Never destroyed: layers in static variables may outlive everything else.
  static ForkLocks& instance() {
    static auto& locks = *std::make_unique<ForkLocks>().release();
    return locks;
  }

  ForkLocks() {
    pthread_atfork([] { instance().before(); }, [] { instance().after(false); },
                   [] { instance().after(true); });
  }

  std::mutex& at(ForkLevel level, const void* owner) {
    // Fibonacci hashing; the low bits of an address carry no information.
    const auto hash = (reinterpret_cast<uintptr_t>(owner) >> 4) * 0x9e3779b97f4a7c15ull;
    return levels_[static_cast<size_t>(level)][(hash >> 32) % kMutexesPerLevel];
  }

  void add_reset(std::function<void()> reset) {
    const std::scoped_lock lock(resets_mutex_);
    resets_.push_back(std::move(reset));
  }

 private:
  void before() {
    for (auto& level : levels_) {
      for (auto& mutex : level) {
        mutex.lock();
      }
    }
    resets_mutex_.lock();
  }

  void after(bool in_child) {
    if (in_child) {
      for (const auto& reset : resets_) {
        reset();
      }
    }
    resets_mutex_.unlock();
    for (auto& level : levels_) {
      for (auto& mutex : level) {
        mutex.unlock();
      }
    }
  }

  using Level = std::array<std::mutex, kMutexesPerLevel>;
  std::array<Level, static_cast<size_t>(ForkLevel::count_)> levels_;
  std::mutex resets_mutex_;
  std::vector<std::function<void()>> resets_;
};

}  // namespace

std::mutex& fork_safe_mutex(ForkLevel level, const void* owner) {
  return ForkLocks::instance().at(level, owner);
}

void reset_after_fork(std::function<void()> reset) {
  ForkLocks::instance().add_reset(std::move(reset));
}

}  // namespace cpuaccel
