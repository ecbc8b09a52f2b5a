// Up to four rows by a panel on Arm: dot products of four bytes, codes straight from the panel. D
// is an ISA's class with dot<lane>, which adds products of codes and of a lane's four bytes.
// Included by ISA sources.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/unroll.h"
#include "kernels/gemm_wq/group_end_neon.h"
#include "kernels/inline.h"
#include "kernels/qgemm_wq/codes_neon.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

// Row kRow of a step and the ones after it. The step's first dword is number kDword of `rows`.
template <typename D, int kDword, int kRow, int kRows, int kWide, int kVectors>
CPUACCEL_INLINE void dot_rows(int32x4_t (&sums)[kRows][kWide], const Halves (&codes)[kWide],
                              const int8x16_t (&rows)[kVectors]) {
  if constexpr (kRow < kRows) {
    constexpr int kLow = kDword + 2 * kRow, kHigh = kLow + 1;
    CPUACCEL_UNROLL
    for (int j = 0; j < kWide; ++j) {
      D::template dot<kLow % 4>(sums[kRow][j], codes[j].low, rows[kLow / 4]);
    }
    CPUACCEL_UNROLL
    for (int j = 0; j < kWide; ++j) {
      D::template dot<kHigh % 4>(sums[kRow][j], codes[j].high, rows[kHigh / 4]);
    }
    dot_rows<D, kDword, kRow + 1>(sums, codes, rows);
  }
}

template <typename D, int kBits, int kDword, bool kWhole, int kRows, int kWide, int kVectors>
CPUACCEL_INLINE void dot_step(int32x4_t (&sums)[kRows][kWide], const std::byte* codes,
                              const int8x16_t (&rows)[kVectors]) {
  // Half of the columns at a time, so that their codes fit into registers.
  constexpr int kAtOnce = kRows == 1 ? 4 : kWide;
  static_assert(kWide % kAtOnce == 0);
  CPUACCEL_UNROLL
  for (int first = 0; first < kWide; first += kAtOnce) {
    Halves split[kAtOnce];
    int32x4_t part[kRows][kAtOnce];
    CPUACCEL_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      split[j] = load_codes<kBits, kWhole>(codes + (first + j) * 16);
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows * kAtOnce; ++i) {
      part[i / kAtOnce][i % kAtOnce] = sums[i / kAtOnce][first + i % kAtOnce];
    }
    dot_rows<D, kDword, 0>(part, split, rows);
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows * kAtOnce; ++i) {
      sums[i / kAtOnce][first + i % kAtOnce] = part[i / kAtOnce][i % kAtOnce];
    }
  }
}

// `start` plus sums over some steps. half_more: behind them a dword of codes of 8 bits is left.
template <typename D, int kBits, int kRows, int kWide>
CPUACCEL_INLINE void dot_steps(int32x4_t (&sums)[kRows][kWide], const int8_t* rows,
                               const std::byte* codes, int64_t steps, bool half_more,
                               int32_t start = 0) {
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows * kWide; ++i) {
    sums[i / kWide][i % kWide] = vdupq_n_s32(start);
  }
  if constexpr (kRows == 1) {
    for (; steps >= 2; steps -= 2) {
      const int8x16_t both[1] = {vld1q_s8(rows)};
      dot_step<D, kBits, 0, true>(sums, codes, both);
      dot_step<D, kBits, 2, true>(sums, codes + kStepBytes<kBits>, both);
      rows += 2 * kStep;
      codes += 2 * kStepBytes<kBits>;
      // Keeps the compiler from loading several steps ahead, which would spill the sums.
      asm volatile("" : "+r"(codes), "+r"(rows));
    }
  }
  constexpr int kVectors = kRows == 1 ? 1 : kRows / 2;
  const auto load_rows = [&](int8x16_t(&to)[kVectors]) __attribute__((always_inline)) {
    if constexpr (kRows == 1) {
      to[0] = vcombine_s8(vld1_s8(rows), vdup_n_s8(0));
    } else {
      CPUACCEL_UNROLL
      for (int i = 0; i < kVectors; ++i) {
        to[i] = vld1q_s8(rows + 16 * i);
      }
    }
  };
  for (; steps > 0; --steps) {
    int8x16_t of_step[kVectors];
    load_rows(of_step);
    dot_step<D, kBits, 0, true>(sums, codes, of_step);
    rows += kStep * kRows;
    codes += kStepBytes<kBits>;
    asm volatile("" : "+r"(codes), "+r"(rows));
  }
  if (kBits == 8 && half_more) {
    int8x16_t of_step[kVectors];
    load_rows(of_step);
    dot_step<D, kBits, 0, false>(sums, codes, of_step);
  }
}

template <typename D, int kBits, int kRows>
void few_rows(const QgemmWqTile& t) {
  constexpr int kWide = kRows == 4 ? 4 : 8;
  const WqFormat& format = *t.format;
  const int64_t steps = divide_up(format.group, kStep);
  const bool half = kBits == 8 && divide_up(format.group, int64_t{4}) % 2 != 0;
  const auto* rows = reinterpret_cast<const int8_t*>(t.rows);
  const float* row_sums = t.row_sums;
  std::fill_n(t.sums, kRows * kWqColumns, 0.0f);
  GroupEnd<InRows> end(format, *t.layout, 0);
  for (int64_t g = 0; g < t.layout->groups; ++g) {
    const std::byte* group = t.panel + g * t.layout->group_bytes();
    end.load(group + t.layout->code_bytes);
    for (int64_t done = 0; done < steps; done += kWqIntegers / kStep) {
      const int64_t count = std::min(steps - done, kWqIntegers / kStep);
      const bool last = done + count == steps;
      for (int64_t column = 0; column < kWqColumns; column += 4 * kWide) {
        int32x4_t sums[kRows][kWide];
        dot_steps<D, kBits>(sums, rows + done * kStep * kRows,
                            group + done * kStepBytes<kBits> + column * 4,
                            count - (half && last ? 1 : 0), half && last);
        float32x4_t floats[kRows][kWide];
        CPUACCEL_UNROLL
        for (int i = 0; i < kRows * kWide; ++i) {
          floats[i / kWide][i % kWide] = vcvtq_f32_s32(sums[i / kWide][i % kWide]);
        }
        if (last) [[likely]] {
          end.choose([&]<bool kZeros, bool kReals>() __attribute__((always_inline)) {
            end_rows<kZeros, kReals>(t.sums, floats, end, row_sums, column);
          });
        } else {
          end_rows<false, false>(t.sums, floats, end, row_sums, column);
        }
      }
    }
    rows += steps * kStep * kRows;
    row_sums += kRows;
  }
}

template <typename D, int kBits>
void few_rows_of(const QgemmWqTile& t) {
  switch (t.width) {
    case 1:
      return few_rows<D, kBits, 1>(t);
    case 2:
      return few_rows<D, kBits, 2>(t);
    default:
      return few_rows<D, kBits, 4>(t);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
