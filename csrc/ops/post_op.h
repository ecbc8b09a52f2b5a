// Post-ops of a float linear layer (relu, silu, gelu ...), by the names that compiled graphs use.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/gemm/types.h"

namespace cpuaccel::ops {

struct PostOp {
  std::string_view name;
  kernels::FloatFunction function;
  at::Tensor (*by_torch)(const at::Tensor& x);
};

// Null for "". Throws, in the name of `op`, if there is no such post-op.
const PostOp* find_post_op(const char* op, std::string_view name);

// The post-op as gemm applies it to its output; null: none.
kernels::GemmAfter gemm_after(const PostOp* post_op);

}  // namespace cpuaccel::ops
