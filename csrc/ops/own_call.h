// Marks a call that a cpuaccel kernel serves: the profiler sees it, and stats() counts it.
#pragma once

#include <ATen/record_function.h>

#include <array>

#include "base/counters.h"

namespace cpuaccel::ops {

inline const char* own_call_name(Op op) {
#define CPUACCEL_NAME(name) "cpuaccel::" #name ".cpuaccel",
  constexpr std::array kNames{CPUACCEL_COUNTED_OPS(CPUACCEL_NAME)};
#undef CPUACCEL_NAME
  return kNames[static_cast<size_t>(op)];
}

// Records the call from construction to the end of the scope.
class OwnCall {
 public:
  explicit OwnCall(Op op) : op_(op), record_(at::RecordScope::FUNCTION) {
    if (record_.isActive()) {
      record_.before(own_call_name(op));
    }
  }
  ~OwnCall() { calls().add(op_, Provider::own); }
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;

 private:
  Op op_;
  at::RecordFunction record_;
};

#define CPUACCEL_OWN_CALL(op) const ::cpuaccel::ops::OwnCall own_call(::cpuaccel::Op::op)

}  // namespace cpuaccel::ops
