// The step that quantizes the rows of a source, for layers of integer products.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/quantize_by_row/quantize_by_row.h"
#include "quant/steps/step.h"

namespace cpuaccel::quant {

// How rows become s8: mode, symmetric, low and high of `call`; with scales that are given, those
// and their zero points: one, or one for each row.
struct RowRounding {
  kernels::QuantizeByRow call;
  std::vector<float> scales;
  std::vector<int32_t> zero_points;
};

// The rows of K elements of `src`, a source without gaps, as three values: s8 integers, f32 scales
// and s32 zero points. Layers that quantize one source in the same way share them.
std::vector<Id> quantized_rows(Building& building, Id src, int64_t K, RowRounding rounding);

}  // namespace cpuaccel::quant
