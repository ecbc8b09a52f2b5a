// Family broadcast_add: sums of f32, bf16 or f16 tensors, some of which are broadcast.
//
//   dst[i] = sum over operands of data[i mod count]
//
//   i < count, int64; data and dst: f32, bf16 or f16; sums are f32, in the order of the operands,
//   and rounded once, to nearest even
//
// An operand that shares dst's memory must be as long as dst. The family has no kernel list: gemm's
// kernels convert 16 bits, and the compiler's loop over floats is limited by memory on every CPU.
//
// Bound: the bytes of dst and of the operands that are not broadcast, once each.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/types.h"

namespace cpuaccel::kernels {

struct BroadcastOperand {
  const void* data = nullptr;
  int64_t count = 0;  // at least 1
};

struct BroadcastAddCall {
  std::span<const BroadcastOperand> operands;  // one or more
  void* dst = nullptr;
  int64_t count = 0;
  DataType type = DataType::f32;  // f32 or bf16, for operands and dst
};

// Uses all of torch's threads.
void broadcast_add(const BroadcastAddCall& call);

}  // namespace cpuaccel::kernels
