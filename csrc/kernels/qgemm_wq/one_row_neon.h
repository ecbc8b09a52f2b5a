// A row by a panel on Arm: all totals stay in registers. few_rows_neon.h describes D. Included by
// ISA sources.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/half_neon.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm_wq/codes_neon.h"
#include "kernels/qgemm_wq/few_rows_neon.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

// Zeros of kind `reals` have kReals, there are none otherwise. E: the type of the scales.
template <typename D, int kBits, typename E, bool kReals>
void one_row(const QgemmWqTile& t) {
  using Element = typename E::Element;
  constexpr int kVectors = kWqColumns / 4;
  const WqLayout& layout = *t.layout;
  const int64_t steps = divide_up(t.format->group, kStep);
  const bool half = kBits == 8 && divide_up(t.format->group, int64_t{4}) % 2 != 0;
  const auto* rows = reinterpret_cast<const int8_t*>(t.rows);
  const std::byte* group = t.panel;
  float32x4_t totals[kVectors];
  CPUACCEL_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    totals[j] = vdupq_n_f32(0.0f);
  }
  for (int64_t g = 0; g < layout.groups; ++g, group += layout.group_bytes()) {
    const float row_sum = t.row_sums[g];
    // With it, sums of codes from 0 become those of centered codes.
    const auto start = static_cast<int32_t>(kBits == 4 ? -8.0f * row_sum : 0.0f);
    int32x4_t sums[1][kVectors];
    dot_steps<D, kBits>(sums, rows, group, steps - (half ? 1 : 0), half, start);
    rows += steps * kStep;
    const auto* scales = reinterpret_cast<const Element*>(group + layout.code_bytes);
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      if constexpr (kReals) {
        totals[j] = vfmaq_n_f32(totals[j], E::load(scales + kWqColumns + 4 * j), row_sum);
      }
      totals[j] = vfmaq_f32(totals[j], E::load(scales + 4 * j), vcvtq_f32_s32(sums[0][j]));
    }
  }
  CPUACCEL_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    vst1q_f32(t.sums + 4 * j, totals[j]);
  }
}

template <typename D, int kBits, typename E>
CPUACCEL_INLINE void one_row_as(const QgemmWqTile& t) {
  t.format->zeros == WqZeros::reals ? one_row<D, kBits, E, true>(t)
                                    : one_row<D, kBits, E, false>(t);
}

template <typename D, int kBits>
void rows_of(const QgemmWqTile& t) {
  const WqFormat& format = *t.format;
  if (t.width != 1 || format.zeros == WqZeros::integers || format.group > kWqIntegers) {
    return few_rows_of<D, kBits>(t);
  }
  switch (format.scales) {
    case DataType::f32:
      return one_row_as<D, kBits, F32Elements>(t);
    case DataType::bf16:
      return one_row_as<D, kBits, Bf16Elements>(t);
    default:
      return one_row_as<D, kBits, F16Elements>(t);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
