// Family add_repeated: sums of tensors of floats, some of which repeat.
//
//   dst[i] = sum over operands of data[i mod count]
//
//   i < count, int64; data and dst: f32, or bf16; sums are f32, in the order of the operands, and
//   rounded once, to nearest even
//
// An operand that is dst's own memory has to be as long as dst. There are no rows of ISAs: gemm's
// convert bf16, and what the compiler makes of the sums of floats waits for memory on every CPU.
//
// Bound: the bytes of dst and of the operands that do not repeat, once each.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/types.h"

namespace cpuaccel::kernels {

struct RepeatedOperand {
  const void* data = nullptr;
  int64_t count = 0;  // at least 1
};

struct AddRepeatedCall {
  std::span<const RepeatedOperand> operands;  // one or more
  void* dst = nullptr;
  int64_t count = 0;
  GemmType type = GemmType::f32;  // f32 or bf16, of all
};

// On all of torch's threads.
void add_repeated(const AddRepeatedCall& call);

}  // namespace cpuaccel::kernels
