// Elementwise post-ops that cpuaccel's kernels apply to a layer's output.
#pragma once

#include <optional>

#include "kernels/eltwise_f32/eltwise_f32.h"
#include "plan/layer.h"

namespace cpuaccel::plan {

// The elementwise function of `post_op`; nullopt if cpuaccel has no kernel for it.
std::optional<kernels::FloatFunction> eltwise_of(const PostOp& post_op);

// Whether oneDNN computes `function` in a layer so slowly that cpuaccel's kernel, which reads and
// writes the results once more, may be faster. This holds for functions with exponentials.
bool is_slow_in_onednn(kernels::FloatFunction function);

// values[i] = function(values[i]) for `count` values of f32 or bf16, on all threads.
void apply_eltwise(kernels::FloatFunction function, DataType type, void* values, int64_t count);

}  // namespace cpuaccel::plan
