#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/attention/attention.h"

namespace cpuaccel::kernels {
namespace {

SoftmaxResult softmax(const SoftmaxRow& row) {
  float max = row.max;
  for (int64_t i = 0; i < row.count; ++i) {
    row.scores[i] = row.scale * row.scores[i] + (row.mask != nullptr ? row.mask[i] : 0.0f);
    max = row.scores[i] > max ? row.scores[i] : max;
  }
  const float from = max == -std::numeric_limits<float>::infinity() ? 0.0f : max;
  float sum = 0.0f;
  for (int64_t i = 0; i < row.count; ++i) {
    const float x = row.scores[i] - from;
    row.scores[i] = x < -87.0f ? 0.0f : std::exp(x);
    sum += row.scores[i];
  }
  return {max, sum};
}

void scale(float* row, int64_t count, float factor) {
  std::for_each(row, row + count, [&](float& x) { x *= factor; });
}

void cap(float* row, int64_t count, float scale, float cap) {
  std::for_each(row, row + count, [&](float& x) { x = cap * std::tanh(scale * x / cap); });
}

void multiply(float* row, const float* factors, int64_t count) {
  std::transform(row, row + count, factors, row, std::multiplies<>());
}

void widen(const int8_t* src, int64_t count, float* dst) { std::copy_n(src, count, dst); }

void outer_sum(const float* rows, int64_t count, const float* columns, int64_t width, float* dst) {
  for (int64_t i = 0; i < count; ++i) {
    std::transform(columns, columns + width, dst + i * width,
                   [&](float column) { return rows[i] + column; });
  }
}

}  // namespace

const AttentionKernels& attention_ref() {
  static constexpr AttentionKernels kernels{softmax,  nullptr, scale,    cap,
                                            multiply, widen,   outer_sum};
  return kernels;
}

}  // namespace cpuaccel::kernels
