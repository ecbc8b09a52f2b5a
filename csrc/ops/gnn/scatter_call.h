// Shared code of scatter_add, index_add, scatter_reduce and index_reduce along dimension 0:
// fallback checks and the output tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/counters.h"
#include "kernels/scatter/scatter.h"
#include "ops/gnn/rows.h"
#include "ops/torch_compat/tensors.h"

namespace cpuaccel::ops {

struct ScatterArguments {
  Op op;
  const at::Tensor& self;
  int64_t dim;
  const at::Tensor& index;
  const at::Tensor& src;
  RowNumbers numbers;  // row indices; scatter_fallback_reason() sets them

  // Whether the index has self's dimensions, as in scatter_add and scatter_reduce; else it has one.
  bool scatters() const { return op == Op::scatter_add || op == Op::scatter_reduce; }
};

// The reason for a fallback to torch, or null. Does not read the index values.
const char* scatter_fallback_reason(ScatterArguments& arguments);

// Computes the call. Its dst already holds a copy of self.
using ScatterBody = c10::function_ref<void(const kernels::ScatterCall&)>;

// Each returns false, and counts a fallback, if torch has to compute the call.
bool scattered_in_place(ScatterArguments arguments, ScatterBody body);
bool scattered_into(ScatterArguments arguments, const at::Tensor& out, ScatterBody body);
bool scattered_into_new(ScatterArguments arguments, at::Tensor& out, ScatterBody body);

}  // namespace cpuaccel::ops
