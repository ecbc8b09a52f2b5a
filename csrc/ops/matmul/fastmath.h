// Products of f32 matrices in BF16 arithmetic with f32 sums, where that was asked for.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cpuaccel::ops {

enum class FastmathMode : uint8_t {
  automatic,  // where it was asked for and the CPU has it
  off,
  emulate  // where it was asked for, by rounding alone where the CPU lacks it
};

void set_fastmath_mode(FastmathMode mode);

// Whether it was asked for: torch.backends.mkldnn.matmul.fp32_precision, which
// set_float32_matmul_precision("medium") and cpuaccel.fastmath() set too, or
// DNNL_DEFAULT_FPMATH_MODE in the environment.
bool fastmath_asked();

// Whether f32 products are to be computed so now.
bool fastmath_on();

// Whether our kernels round f32 operands to bfloat16 on the way, so that no rounded copy is needed:
// on CPUs with AVX512-BF16, but for those with AMX, which oneDNN knows how to use.
bool rounds_while_packing();

// `x` rounded to bfloat16. That of a weight is kept, unless gradients are being recorded: then it
// changes with every step.
at::Tensor to_bfloat16(const at::Tensor& x);
at::Tensor weight_to_bfloat16(const at::Tensor& weight);

}  // namespace cpuaccel::ops
