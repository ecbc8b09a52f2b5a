// Gradient of amax and amin: counts the ties (messages equal to the result), then gives each tie
// its share.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/scatter/scatter.h"
#include "kernels/scatter_amax_grad/scatter_amax_grad.h"

namespace cpuaccel::ops {

// Counts the elements of `src` (of with_rows) that equal those of `result` (dense). The caller sets
// the call's index, and its dst, which is as dense as the result.
kernels::ScatterCall ties_call(const at::Tensor& src, const at::Tensor& result);

// Writes to `dst` (dense, src's sizes) the `share` (dense) of each tie that `count` counted. NaN
// are ties if they were counted. All tensors outlive the call.
kernels::ScatterAmaxGradCall scatter_amax_grad_call(const kernels::ScatterCall& count,
                                                    const at::Tensor& share, const at::Tensor& dst);

}  // namespace cpuaccel::ops
