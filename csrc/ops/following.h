// Functions of floats behind a linear layer, by the names that compiled graphs give them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/function_f32/function_f32.h"
#include "kernels/gemm/types.h"

namespace cpuaccel::ops {

struct FollowingFunction {
  std::string_view name;
  kernels::FloatFunction function;
  at::Tensor (*by_torch)(const at::Tensor& x);
};

// Null for "". Throws, in the name of `op`, if there is none of that name.
const FollowingFunction* find_following(const char* op, std::string_view name);

// As gemm runs it on results; null: nothing.
kernels::GemmAfter after_of(const FollowingFunction* following);

}  // namespace cpuaccel::ops
