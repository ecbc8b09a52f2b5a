// Family scatter_amax_grad: gradient of amax and amin reductions. Each element that equals the
// result gets its share of the gradient.
//
//   dst[e,k] = share[index[e],k]       if src[e,k] == value[index[e],k], or is NaN and nan_ties
//              0 * share[index[e],k]   otherwise
//
// src and dst E x K, value and share N x K. 0 times an infinite share is NaN, as in autograd's
// formula of scatter_reduce; with `zeroes` it is 0.
// Bound: src read and dst written once, and for each e two rows read from the cache that they fit.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/csr/csr.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct ScatterAmaxGradCall {
  int64_t E = 0, N = 0, K = 0;
  const void* index = nullptr;    // E
  bool wide = true;               // index is int64, else int32
  DataType type = DataType::f32;  // f32 or f64
  const void* src = nullptr;
  int64_t src_stride = 0;       // elements from row to row
  const void* value = nullptr;  // dense
  const void* share = nullptr;  // dense
  void* dst = nullptr;          // dense
  bool nan_ties = false, zeroes = false;
};

// Computes entries [begin, end). dst is 0 if an index is not one of the N rows.
using ScatterAmaxGradFunction = void(const ScatterAmaxGradCall& call, int64_t begin, int64_t end);

#define CPUACCEL_KERNEL(name) ScatterAmaxGradFunction scatter_amax_grad_##name;
#include "kernels/scatter_amax_grad/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<ScatterAmaxGradFunction>> scatter_amax_grad_kernels();

// Runs on all of torch's threads. dst must not overlap anything else.
CPUACCEL_API void scatter_amax_grad(const ScatterAmaxGradCall& call,
                                    ScatterAmaxGradFunction* function);
CPUACCEL_API void scatter_amax_grad(const ScatterAmaxGradCall& call);  // runs the best usable row

}  // namespace cpuaccel::kernels
