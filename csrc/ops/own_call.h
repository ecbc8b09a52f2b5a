// A call that a kernel of csrc/kernels serves: seen by the profiler, counted for stats().
#pragma once

#include <ATen/record_function.h>

#include "base/counters.h"

namespace cpuaccel::ops {

// From its construction to the end of the scope; make one with CPUACCEL_OWN_CALL.
class OwnCall {
 public:
  OwnCall(Op op, const char* profiler_name) : op_(op), record_(at::RecordScope::FUNCTION) {
    if (record_.isActive()) {
      record_.before(profiler_name);
    }
  }
  ~OwnCall() { calls().add(op_, Provider::own); }
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;

 private:
  Op op_;
  at::RecordFunction record_;
};

#define CPUACCEL_OWN_CALL(op) \
  const ::cpuaccel::ops::OwnCall own_call(::cpuaccel::Op::op, "cpuaccel::" #op ".cpuaccel")

}  // namespace cpuaccel::ops
