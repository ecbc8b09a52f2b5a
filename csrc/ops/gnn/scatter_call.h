// What scatter_add, index_add, scatter_reduce and index_reduce along dimension 0 share: whether our
// kernels take a call, and the tensor that its result goes to.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>

#include "base/counters.h"
#include "kernels/scatter/scatter.h"
#include "ops/gnn/rows.h"

namespace cpuaccel::ops {

struct ScatterArguments {
  Op op;
  const at::Tensor& self;
  int64_t dim;
  const at::Tensor& index;
  const at::Tensor& src;
  RowNumbers numbers;  // of the index; for scatter_refusal() to find

  // As scatter_add and scatter_reduce have it, the index has self's dimensions, else one.
  bool scatters() const { return op == Op::scatter_add || op == Op::scatter_reduce; }
};

// What a call is left to torch for, to judge or to compute; null if it is not. Reads no index.
const char* scatter_refusal(ScatterArguments& arguments);

// Runs on the call that writes to the result, in which there is self by then.
using ScatterBody = c10::function_ref<void(const kernels::ScatterCall&)>;

// Each of these is false where torch has to do it, and has counted that.
bool scattered_in_place(ScatterArguments arguments, ScatterBody body);
bool scattered_into(ScatterArguments arguments, const at::Tensor& out, ScatterBody body);
bool scattered_into_new(ScatterArguments arguments, at::Tensor& out, ScatterBody body);

}  // namespace cpuaccel::ops
