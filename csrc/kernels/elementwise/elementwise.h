// Family elementwise: a few elementwise ops on f32, bf16 or f16 tensors, some broadcast, in one
// pass.
//
//   value 0, 1, ...: the operands, of any of the three types; then the results of the steps, each
//   computed from values before it. dst is the last value, rounded once to its type.
//
// Arithmetic is f32. add to square are rounded like f32 operations. Error of the functions: exp and
// sigmoid 2^-20 of the result plus 2^-125, tanh 2^-17 of the result, activations as in eltwise_f32.
// NaN gives NaN.
//
// Operands have any strides, also 0 and negative; dst is dense. dst may be an operand with dst's
// type and layout; it overlaps nothing else. Results are the same bits on any number of threads.
//
// Bound: the bytes of all operands and of dst once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/activation.h"
#include "base/api.h"
#include "base/data_type.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

enum class ElementwiseOp : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  square,  // from here on of one value
  exp,
  sigmoid,
  tanh,
  clamp,
  activation,
};

struct ElementwiseStep {
  ElementwiseOp op;
  size_t a, b = 0;  // numbers of values
  Activation activation = Activation::none;
  float low = 0, high = 0;  // of clamp
};

inline constexpr size_t kElementwiseDims = 6;
using ElementwiseSizes = std::array<int64_t, kElementwiseDims>;

struct ElementwiseOperand {
  DataType type;
  ElementwiseSizes strides;  // 0 where it is broadcast
};

// Operands and steps together are at most this many.
inline constexpr size_t kElementwiseValues = 16;

// The sizes of dst, which lies in memory in the order of its dimensions; leading ones are 1.
struct ElementwiseProgram {
  ElementwiseSizes sizes{1, 1, 1, 1, 1, 1};
  std::vector<ElementwiseOperand> operands;
  std::vector<ElementwiseStep> steps;
  DataType type = DataType::f32;  // of dst

  // Merges dimensions that no operand has to tell apart, so that runs are long.
  void merge_dimensions();
};

// dst[i] = op(a[i], b[i]) for `count` floats. dst may be a or b. It does not compute activations.
struct ElementwiseRun {
  ElementwiseOp op;
  const float *a, *b;
  float* dst;
  int64_t count;
  float low, high;
};
using ElementwiseFunction = void(const ElementwiseRun& run);

#define CPUACCEL_KERNEL(name) ElementwiseFunction elementwise_##name;
#include "kernels/elementwise/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<ElementwiseFunction>> elementwise_kernels();

// Uses the best usable row and all of torch's threads.
void elementwise(const ElementwiseProgram& program, std::span<const void* const> operands,
                 void* dst);

// Uses the given row.
void elementwise(const ElementwiseProgram& program, std::span<const void* const> operands,
                 void* dst, ElementwiseFunction* row);

}  // namespace cpuaccel::kernels
