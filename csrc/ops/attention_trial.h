// Whether family attention is as fast as torch's kernel, found out by running both.
#pragma once

#include <cstdint>
#include <string>

namespace cpuaccel::ops {

struct AttentionProblem {
  int64_t N = 1, H = 1, L = 1, S = 1, E = 1;
  bool bf16 = false;  // the type of its operands; else f32
  bool mask = false, causal = false;
};

// What a trial found out: the fastest of some runs of each, in seconds.
struct AttentionTrial {
  double own = 0, torchs = 0;
};

// Runs both on operands of their own, heads side by side as linear layers leave them, or keys and
// values of few queries as a decoder's caches have them: some dozens of milliseconds.
AttentionTrial try_attention(const AttentionProblem& problem);

// Why a plan leaves attention of these sizes to torch; empty: it does not. Where nobody measured
// the CPU, both are timed once and the result is known as ranks are (dnnl/ranks.h); where timing is
// off, nothing is taken there.
std::string why_torch_attention(const AttentionProblem& problem);

}  // namespace cpuaccel::ops
