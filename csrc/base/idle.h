// One object that is kept for whoever comes next.
#pragma once

#include <atomic>
#include <memory>

namespace cpuaccel {

// Objects that are made for a call and can serve the next. One waits here; of several threads at
// once each but one makes its own, and what comes back to a full place is destroyed.
template <class T>
class Idle {
 public:
  Idle() = default;
  ~Idle() { const std::unique_ptr<T> last(kept_.exchange(nullptr)); }
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;

  // Null: there is none.
  std::unique_ptr<T> take() {
    return std::unique_ptr<T>(kept_.exchange(nullptr, std::memory_order_acquire));
  }
  void give(std::unique_ptr<T> object) {
    const std::unique_ptr<T> other(kept_.exchange(object.release(), std::memory_order_acq_rel));
  }

 private:
  std::atomic<T*> kept_{nullptr};
};

}  // namespace cpuaccel
