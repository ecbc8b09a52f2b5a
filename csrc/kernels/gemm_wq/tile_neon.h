// Innermost loops of gemm_wq with NEON. Included by the ISA source only.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/gemm/unroll.h"
#include "kernels/gemm_wq/codes_neon.h"
#include "kernels/gemm_wq/gemm_wq.h"
#include "kernels/gemm_wq/group_end_neon.h"
#include "kernels/inline.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

// The k of four of a run from number kK on, for vector kJ of columns.
template <int kJ, int kK, int kBits, int kRows, int kWide>
CPUACCEL_INLINE void add_four(float32x4_t (&sums)[kRows][kWide], const FourCodes<kBits>& codes,
                              const float* rows) {
  if constexpr (kK < 4) {
    const float32x4_t code = codes.template at<kK>();
    [&]<int... kI>(std::integer_sequence<int, kI...>) __attribute__((always_inline)) {
      ((sums[kI][kJ] =
            vfmaq_laneq_f32(sums[kI][kJ], code, vld1q_f32(rows + (kK * kRows + kI) / 4 * 4),
                            (kK * kRows + kI) % 4)),
       ...);
    }(std::make_integer_sequence<int, kRows>());
    add_four<kJ, kK + 1>(sums, codes, rows);
  }
}

// Vectors of columns from kJ on.
template <int kBits, int kJ = 0, int kRows, int kWide>
CPUACCEL_INLINE void add_run(float32x4_t (&sums)[kRows][kWide], const std::byte* codes,
                             const float* rows) {
  if constexpr (kJ < kWide) {
    add_four<kJ, 0>(sums, FourCodes<kBits>::template load<0>(codes + kJ * 16), rows);
    if constexpr (kBits == 4) {
      add_four<kJ, 0>(sums, FourCodes<kBits>::template load<1>(codes + kJ * 16), rows + 4 * kRows);
    }
    add_run<kBits, kJ + 1>(sums, codes, rows);
  }
}

// kWide vectors of columns at a time.
template <int kBits, int kRows, int kWide>
void tile_of(const WqTile& t) {
  constexpr int64_t kRun = wq_run(kBits);
  const WqLayout& layout = *t.layout;
  const int64_t runs = divide_up(t.format->group, kRun);
  const float *rows = t.rows, *row_sums = t.row_sums;
  std::fill_n(t.sums, kRows * kWqColumns, 0.0f);
  GroupEnd<InRows> end(*t.format, layout, 0);
  for (int64_t g = 0; g < layout.groups; ++g) {
    const std::byte* group = t.panel + g * layout.group_bytes();
    end.load(group + layout.code_bytes);
    for (int64_t column = 0; column < kWqColumns; column += 4 * kWide) {
      float32x4_t sums[kRows][kWide];
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows * kWide; ++i) {
        sums[i / kWide][i % kWide] = vdupq_n_f32(0.0f);
      }
      const std::byte* codes = group + column * 4;
      const float* x = rows;
      for (int64_t left = runs; left > 0; --left) {
        add_run<kBits>(sums, codes, x);
        codes += 4 * kWqColumns;
        x += kRun * kRows;
        // Keeps the compiler from loading several runs ahead, which would spill the sums.
        asm volatile("" : "+r"(codes), "+r"(x));
      }
      end.choose([&]<bool kZeros, bool kReals>() __attribute__((always_inline)) {
        end_rows<kZeros, kReals>(t.sums, sums, end, row_sums, column);
      });
    }
    rows += runs * kRun * kRows;
    row_sums += kRows;
  }
}

template <int kBits>
void tile_by_rows(const WqTile& t) {
  switch (t.width) {
    case 1:
      return tile_of<kBits, 1, 8>(t);
    case 2:
      return tile_of<kBits, 2, 8>(t);
    case 4:
      return tile_of<kBits, 4, 4>(t);
    case 6:
      return tile_of<kBits, 6, 2>(t);
    default:
      return tile_of<kBits, 8, 2>(t);
  }
}

void tile(const WqTile& t) { t.format->bits == 4 ? tile_by_rows<4>(t) : tile_by_rows<8>(t); }

}  // namespace
}  // namespace cpuaccel::kernels
