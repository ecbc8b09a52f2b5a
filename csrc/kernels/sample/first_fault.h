// The first fault of a parallel check, independent of the order in which threads find faults.
#pragma once

#include <mutex>
#include <optional>

#include "kernels/sample/sample.h"

namespace cpuaccel::kernels {

class FirstFault {
 public:
  // `at` orders faults as one thread would find them.
  void add(int64_t at, const SampleFault& fault) {
    const std::scoped_lock lock(mutex_);
    if (!fault_ || at < at_) {
      at_ = at;
      fault_ = fault;
    }
  }
  const std::optional<SampleFault>& get() const { return fault_; }

 private:
  std::mutex mutex_;
  std::optional<SampleFault> fault_;
  int64_t at_ = 0;
};

}  // namespace cpuaccel::kernels
