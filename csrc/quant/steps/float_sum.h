// Adds an operand to a quantized layer's f32 results before they are rounded, for layers whose
// kernel does not fuse the addition.
#pragma once

#include <cstdint>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// dst = clamp(round(max(real + other_scale * (other - other_zero_point), least) / scale) +
//             zero_point, 0, 255)
struct FloatSum {
  float other_scale;
  int32_t other_zero_point;
  float least;  // 0: ReLU
  float scale;
  int32_t zero_point;
};

// The parameters of `call`, whose post-op is sum or sum_relu.
FloatSum float_sum_of(const QuantCall& call);

// Runs on all of torch's threads.
void add_in_floats(const FloatSum& sum, const float* real, const uint8_t* other, uint8_t* dst,
                   int64_t count);

}  // namespace cpuaccel::quant
