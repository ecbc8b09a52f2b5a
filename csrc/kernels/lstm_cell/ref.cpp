#include <cmath>

#include "kernels/lstm_cell/lstm_cell.h"

namespace cpuaccel::kernels {
namespace {

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

}  // namespace

void lstm_cell_ref(const LstmCell& cell) {
  const float* gates = cell.gates;
  for (int64_t j = 0; j < cell.size; ++j) {
    const float i = sigmoid(gates[j]);
    const float f = sigmoid(gates[cell.size + j]);
    const float g = std::tanh(gates[2 * cell.size + j]);
    const float o = sigmoid(gates[3 * cell.size + j]);
    cell.c[j] = f * cell.c[j] + i * g;
    cell.h[j] = o * std::tanh(cell.c[j]);
  }
}

}  // namespace cpuaccel::kernels
