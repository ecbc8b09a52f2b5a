// A lock-free cache of one reusable object.
#pragma once

#include <atomic>
#include <memory>

namespace cpuaccel {

// Caches one object that is created for a call and can serve the next call. If several threads call
// at once, all but one create their own. give() destroys an object that is already cached.
template <class T>
class Idle {
 public:
  Idle() = default;
  ~Idle() { const std::unique_ptr<T> last(cached_.exchange(nullptr)); }
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;

  // Null if there is none.
  std::unique_ptr<T> take() {
    return std::unique_ptr<T>(cached_.exchange(nullptr, std::memory_order_acquire));
  }
  void give(std::unique_ptr<T> object) {
    const std::unique_ptr<T> other(cached_.exchange(object.release(), std::memory_order_acq_rel));
  }

 private:
  std::atomic<T*> cached_{nullptr};
};

}  // namespace cpuaccel
