// What follows a layer number by number, where a kernel of ours computes it.
#pragma once

#include <optional>

#include "graph/layer.h"
#include "kernels/function_f32/function_f32.h"

namespace cpuaccel::graph {

// Nothing of others.
std::optional<kernels::FloatFunction> function_of(const PostOp& post_op);

// Whether oneDNN, computing it in a layer, takes so much longer than our kernel that to read and
// write the results once more may cost less: exponentials.
bool is_slow_in_layers(kernels::FloatFunction function);

// values[i] = function(values[i]) of `count` numbers, f32 or bf16, on all threads.
void apply_function(kernels::FloatFunction function, DataType type, void* values, int64_t count);

}  // namespace cpuaccel::graph
