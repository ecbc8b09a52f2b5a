// Marks a call that a cpuaccel kernel serves: the profiler sees it, and stats() counts it.
#pragma once

#include <ATen/record_function.h>

#include <array>

#include "base/counters.h"

namespace cpuaccel::ops {

inline const char* kernel_call_name(Op op) {
#define CPUACCEL_NAME(name) "cpuaccel::" #name ".cpuaccel",
  constexpr std::array kNames{CPUACCEL_COUNTED_OPS(CPUACCEL_NAME)};
#undef CPUACCEL_NAME
  return kNames[static_cast<size_t>(op)];
}

// Records the call from construction to the end of the scope.
class KernelCall {
 public:
  explicit KernelCall(Op op) : op_(op), record_(at::RecordScope::FUNCTION) {
    if (record_.isActive()) {
      record_.before(kernel_call_name(op));
    }
  }
  ~KernelCall() { calls().add(op_, Provider::cpuaccel); }
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

 private:
  Op op_;
  at::RecordFunction record_;
};

#define CPUACCEL_KERNEL_CALL(op) const ::cpuaccel::ops::KernelCall kernel_call(::cpuaccel::Op::op)

}  // namespace cpuaccel::ops
