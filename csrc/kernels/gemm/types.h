// GemmCall, the arguments of gemm: matrices, types, bias, post-op.
#pragma once

#include <cstdint>

#include "base/data_type.h"
#include "kernels/gemm/pack.h"

namespace cpuaccel::kernels {

// Element (g, i, j) is at data[g * batch_stride + i * row_stride + j * column_stride]; strides
// count elements.
struct GemmMatrix {
  const void* data = nullptr;
  DataType type = DataType::f32;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
  int64_t batch_stride = 0;
};

struct GemmDst {
  void* data = nullptr;
  DataType type = DataType::f32;
  int64_t row_stride = 0;
  int64_t batch_stride = 0;
};

// One value for each column (n) or each row (m), the same in the whole batch.
enum class GemmBiasAxis : uint8_t { none, n, m };

struct GemmBias {
  const void* data = nullptr;
  DataType type = DataType::f32;
  GemmBiasAxis axis = GemmBiasAxis::none;
};

class GemmPacked;  // kernels/gemm/packed.h

// A post-op on f32 results before they are rounded to dst: run(context, row, count), once for every
// run of a row, in place, on several threads at once. Null: none.
struct GemmAfter {
  void (*run)(const void* context, float* row, int64_t count) = nullptr;
  const void* context = nullptr;
};

struct GemmCall {
  int64_t M = 0, N = 0, K = 0, batch = 1;
  GemmMatrix a, b;
  GemmDst dst;
  GemmMatrix c;  // dst if data is null
  GemmBias bias;
  float alpha = 1.0f, beta = 0.0f;
  GemmAfter after;

  // Instead of a or b: callbacks that write their blocks, or packed weights. Null: the matrices
  // above.
  PackRows pack_a;
  PackPanels pack_b;
  const GemmPacked* packed = nullptr;
};

}  // namespace cpuaccel::kernels
