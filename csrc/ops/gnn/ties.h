// The gradient of amax and amin: how many messages are the result, then the share of each of these.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/scatter/scatter.h"
#include "kernels/tie_grad/tie_grad.h"

namespace cpuaccel::ops {

// Counts the rows of `src` (of with_rows) that are those of `result` (dense). Its index and dst, as
// dense as the result, are for the caller to set.
kernels::ScatterCall ties_call(const at::Tensor& src, const at::Tensor& result);

// Gives those that `count` counted their `share` (dense) in `dst` (dense, src's sizes); NaN are
// among them where they were counted. All tensors outlive the call.
kernels::TieGradCall tie_grad_call(const kernels::ScatterCall& count, const at::Tensor& share,
                                   const at::Tensor& dst);

}  // namespace cpuaccel::ops
