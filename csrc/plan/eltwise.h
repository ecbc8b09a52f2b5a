// Elementwise post-ops that cpuaccel's kernels apply to a layer's output.
#pragma once

#include <cstdint>

#include "base/activation.h"
#include "base/data_type.h"
#include "plan/layer.h"

namespace cpuaccel::plan {

// The activation of `post_op`; none if cpuaccel has no kernel for it.
Activation eltwise_of(const FloatPostOp& post_op);

// Whether oneDNN computes `activation` in a layer so slowly that cpuaccel's kernel, which reads and
// writes the results once more, may be faster. This holds for activations with exponentials.
bool is_slow_in_onednn(Activation activation);

// values[i] = activation(values[i]) for `count` values of f32 or bf16, on all threads.
void apply_eltwise(Activation activation, DataType type, void* values, int64_t count);

}  // namespace cpuaccel::plan
