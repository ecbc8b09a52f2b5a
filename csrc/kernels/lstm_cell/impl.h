// Loop of the lstm_cell kernels, templated on the vector type. Included by ISA files.
#pragma once

#include <cstdint>

#include "kernels/float_vectors/sigmoid.h"
#include "kernels/inline.h"
#include "kernels/lstm_cell/lstm_cell.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
CPUACCEL_INLINE typename V::Vector tanh(typename V::Vector x) {
  return V::fma(V::set1(2.0f), sigmoid<V>(V::add(x, x)), V::set1(-1.0f));
}

template <typename V>
void lstm_cell_loop(const LstmCell& cell) {
  for (int64_t j = 0; j < cell.size; j += V::kLanes) {
    const int64_t left = cell.size - j;
    const auto mask = V::mask(left < V::kLanes ? left : V::kLanes);
    const auto gate = [&](int64_t index) {
      return V::load(cell.gates + index * cell.size + j, mask);
    };
    const auto in = V::multiply(sigmoid<V>(gate(0)), tanh<V>(gate(2)));
    const auto c = V::fma(sigmoid<V>(gate(1)), V::load(cell.c + j, mask), in);
    V::store(cell.c + j, c, mask);
    V::store(cell.h + j, V::multiply(sigmoid<V>(gate(3)), tanh<V>(c)), mask);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
