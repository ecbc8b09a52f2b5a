// Adds and stores results of gemm_w8 by plain loops, which the compiler vectorizes. Included by the
// kernels' sources only.
#pragma once

#include <cstdint>

#include "kernels/gemm/half.h"
#include "kernels/gemm_w8/gemm_w8.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <bool kBiased, typename To>
CPUACCEL_INLINE void finish_by(const GemmW8Results& r, const To& to) {
  for (int64_t j = 0; j < r.count; ++j) {
    to(j, __builtin_fmaf(r.sums[j], r.scales[j], kBiased ? r.bias[j] : 0.0f));
  }
}

template <bool kBiased>
void finish_as(const GemmW8Results& r) {
  auto* floats = static_cast<float*>(r.dst);
  auto* halves = static_cast<uint16_t*>(r.dst);
  switch (r.type) {
    case DataType::f32:
      return finish_by<kBiased>(r, [=](int64_t j, float real) { floats[j] = real; });
    case DataType::bf16:
      return finish_by<kBiased>(r, [=](int64_t j, float real) { halves[j] = float_to_bf16(real); });
    default:
      return finish_by<kBiased>(r, [=](int64_t j, float real) { halves[j] = float_to_f16(real); });
  }
}

void finish(const GemmW8Results& results) {
  results.bias != nullptr ? finish_as<true>(results) : finish_as<false>(results);
}

void add_bytes(const GemmW8Bytes& b) {
  for (int64_t m = 0; m < b.M; ++m) {
    const int32_t* high = b.sums + 3 * m * b.nr;
    const int32_t *middle = high + b.nr, *low = middle + b.nr;
    float* floats = b.floats + m * b.nr;
    for (int64_t j = 0; j < b.n; ++j) {
      const int32_t offset = b.row_offset * b.column_sums[j];
      const auto lower =
          256.0f * static_cast<float>(middle[j] - offset) + static_cast<float>(low[j] - offset);
      floats[j] = b.steps[m] * (65536.0f * static_cast<float>(high[j] - offset) + lower);
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
