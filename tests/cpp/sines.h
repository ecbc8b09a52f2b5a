// Sine values as inputs of the tests of float and bf16 kernels.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "guarded.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {

// `count` numbers from -3 to 3, `by` apart on a sine.
inline GuardedVector<float> floats(int64_t count, float by) {
  GuardedVector<float> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = std::sin(static_cast<float>(i) * by) * 3.0f;
  }
  return result;
}

inline GuardedVector<uint16_t> halves(int64_t count, float by) {
  GuardedVector<uint16_t> result;
  for (const float value : floats(count, by)) {
    result.push_back(float_to_bf16(value));
  }
  return result;
}

}  // namespace cpuaccel::kernels
