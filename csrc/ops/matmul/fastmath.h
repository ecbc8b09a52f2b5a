// Fast math: products of f32 matrices in BF16 arithmetic with f32 sums, if the user asked for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cpuaccel::ops {

enum class FastmathMode : uint8_t {
  automatic,  // if asked for and the CPU has BF16 arithmetic
  off,
  emulate  // if asked for, with rounded operands where the CPU lacks BF16 arithmetic
};

void set_fastmath_mode(FastmathMode mode);

// Whether fast math was asked for: by torch.backends.mkldnn.matmul.fp32_precision, which
// set_float32_matmul_precision("medium") and cpuaccel.fastmath() also set, or by
// DNNL_DEFAULT_FPMATH_MODE in the environment.
bool fastmath_asked();

// Whether f32 products use BF16 arithmetic now.
bool fastmath_on();

// Whether cpuaccel's kernels round f32 operands to bfloat16 while packing them, so that no rounded
// copy is needed: on CPUs with BF16 arithmetic (AVX512-BF16, Arm's BF16) but without AMX. oneDNN
// has kernels for AMX.
bool rounds_while_packing();

// `x` rounded to bfloat16. That of a weight is cached, unless gradients are recorded: then it
// changes with every training step.
at::Tensor to_bfloat16(const at::Tensor& x);
at::Tensor weight_to_bfloat16(const at::Tensor& weight);

}  // namespace cpuaccel::ops
