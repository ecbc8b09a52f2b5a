// Family gated_product: a product by an activation, as SwiGLU and GeGLU have it.
//
//   dst[m,n] = function(gate[m,n]) * up[m,n]
//
// All are M x N of one type, f32, bf16 or f16. dst is dense and may be gate or up if that is dense,
// too. Arithmetic is f32, and dst is rounded once; family eltwise_f32 has the functions and their
// errors. The family has no kernel list: its functions are eltwise_f32's, gemm's kernels convert 16
// bits, and the compiler's loop over floats is as fast as L1. Results are the same bits for any
// number of threads.
// Bound: each number read once and written once.
#pragma once

#include <cstdint>

#include "base/activation.h"
#include "base/data_type.h"

namespace cpuaccel::kernels {

struct GatedProductCall {
  int64_t M = 0, N = 0;
  DataType type = DataType::f32;
  Activation function = Activation::none;
  const void* gate = nullptr;
  int64_t gate_stride = 0;  // elements from a row to the next
  const void* up = nullptr;
  int64_t up_stride = 0;
  void* dst = nullptr;
};

// Uses all of torch's threads.
void gated_product(const GatedProductCall& call);

}  // namespace cpuaccel::kernels
