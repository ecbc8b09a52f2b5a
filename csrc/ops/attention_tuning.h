// Tuning of attention: times cpuaccel's kernel and torch's kernel, and picks one.
#pragma once

#include <cstdint>
#include <string>

namespace cpuaccel::ops {

struct AttentionProblem {
  int64_t N = 1, H = 1, L = 1, S = 1, E = 1;
  bool bf16 = false;  // the operands' type is bf16, else f32
  bool mask = false, causal = false;
};

// Seconds of the fastest of several runs of each kernel.
struct AttentionTimes {
  double cpuaccel = 0, torch = 0;
};

// Runs both kernels on random operands, for some dozens of milliseconds. Heads lie side by side, as
// linear layers leave them. For few queries, keys and values lie as in a decoder's cache.
AttentionTimes time_attention(const AttentionProblem& problem);

// The reason why a plan runs attention of these sizes on torch's kernel; empty: cpuaccel's kernel
// runs. Unless attention_is_always_faster(), both kernels are timed once, and the tuning cache
// (dnnl/tuning_cache.h) has the result. If tuning is off, attention_fallback_reason() decides.
std::string attention_plan_fallback_reason(const AttentionProblem& problem);

}  // namespace cpuaccel::ops
