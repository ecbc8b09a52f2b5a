// Family lstm_cell: the elementwise part of one LSTM step, after the gates are summed, for one
// sequence.
//
//   c[j] = sigmoid(f[j]) * c[j] + sigmoid(i[j]) * tanh(g[j])
//   h[j] = sigmoid(o[j]) * tanh(c[j])
//
// gates: i, f, g and o, `size` floats each, one after the other. c is read and written, h is
// written.
//
// Error: at most 2^-21 * (1 + |c[j]|) for c, and 2^-21 more for h. A NaN stays a NaN.
// Bound: the arithmetic of five exp and five divisions per element.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct LstmCell {
  int64_t size;
  const float* gates;
  float* c;
  float* h;
};

using LstmCellFunction = void(const LstmCell& cell);

#define CPUACCEL_KERNEL(name) LstmCellFunction lstm_cell_##name;
#include "kernels/lstm_cell/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<LstmCellFunction>> lstm_cell_kernels();

// lstm_cells() runs `batch` sequences by the best usable row on all of torch's threads. `first` is
// the first sequence; the strides, in floats, lead from one sequence to the next.
struct LstmCellStrides {
  int64_t gates, c, h;
};
CPUACCEL_API void lstm_cells(const LstmCell& first, int64_t batch, const LstmCellStrides& strides);

}  // namespace cpuaccel::kernels
