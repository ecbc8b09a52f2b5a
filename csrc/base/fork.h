// Locks and caches across fork(): what is guarded here is consistent in the child.
#pragma once

#include <functional>
#include <mutex>

namespace cpuaccel {

// Holds `mutex` while the process forks, so that no other thread is inside it, and calls `reset`
// in the child. Mutexes guarded here are never taken one inside another.
class ForkGuard {
 public:
  ForkGuard(std::mutex& mutex, std::function<void()> reset_in_child);
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 private:
  friend struct ForkRegistry;
  std::mutex& mutex_;
  std::function<void()> reset_in_child_;
};

}  // namespace cpuaccel
