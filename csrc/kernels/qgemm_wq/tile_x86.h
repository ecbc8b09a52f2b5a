// Innermost loops of qgemm_wq. parts_x86.h describes D. Included by x86's sources only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/gemm/unroll.h"
#include "kernels/gemm_wq/group_end.h"
#include "kernels/inline.h"
#include "kernels/qgemm_wq/centered_x86.h"
#include "kernels/qgemm_wq/parts_x86.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {
namespace {

// Rows `first` to `first` + kRows of the tile.
template <typename D, int kBits, int kRows, int kWide, int kWidth>
void tile_of(const QgemmWqTile& t, int64_t first) {
  using V = typename D::Floats;
  const WqFormat& format = *t.format;
  const WqLayout& layout = *t.layout;
  const bool corrected = is_corrected<kBits, D::template kOffset<kBits>>(format);
  constexpr int64_t kRun = wq_run(kBits);
  const int64_t group = (format.group + kRun - 1) / kRun;  // dwords
  const PanelReading reading{.prefetches = t.prefetches};
  for (int64_t g = 0; g < layout.groups; ++g) {
    const std::byte* of_group = t.panel + g * layout.group_bytes();
    for (int64_t v = 0; v < V::kVectors; v += kWide) {
      const std::byte* codes = of_group + v * 4 * V::kLanes;
      const int32_t* rows = t.rows + g * group * D::template kRowDwords<kBits> * kWidth + first;
      typename V::Vector dots[kRows][kWide];
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows * kWide; ++i) {
        dots[i / kWide][i % kWide] = V::set1(0.0f);
      }
      for (int64_t done = 0; done < group; done += kWqIntegers / kRun) {
        typename D::Int sums[kRows][kWide];
        CPUACCEL_UNROLL
        for (int i = 0; i < kRows * kWide; ++i) {
          sums[i / kWide][i % kWide] = D::set1(0);
        }
        const int64_t end = std::min(group, done + kWqIntegers / kRun);
        for (int64_t d = done; d < end; d += D::template kPartial<kBits> / kRun) {
          Parts<D, kBits, kRows, kWide, kWidth> parts;
          CPUACCEL_UNROLL
          for (int i = 0; i < kRows * kWide; ++i) {
            parts.of[i / kWide][i % kWide].clear();
          }
          parts.add(rows, codes, std::min(D::template kPartial<kBits> / kRun, end - d), reading);
          CPUACCEL_UNROLL
          for (int i = 0; i < kRows * kWide; ++i) {
            auto& sum = sums[i / kWide][i % kWide];
            sum = D::add(sum, parts.of[i / kWide][i % kWide].as_ints());
          }
        }
        CPUACCEL_UNROLL
        for (int i = 0; i < kRows * kWide; ++i) {
          auto& dot = dots[i / kWide][i % kWide];
          dot = V::add(dot, D::to_floats(sums[i / kWide][i % kWide]));
        }
      }
      CPUACCEL_UNROLL
      for (int j = 0; j < kWide; ++j) {
        const int64_t column = (v + j) * V::kLanes;
        const auto zeros = zeros_of<V, kBits, D::template kOffset<kBits>>(
            of_group + layout.code_bytes, format, layout, column);
        CPUACCEL_UNROLL
        for (int i = 0; i < kRows; ++i) {
          float* to = t.sums + (first + i) * kWqColumns + column;
          const auto before = g == 0 ? V::set1(0.0f) : V::load(to);
          const float x = t.row_sums[g * kWidth + first + i];
          V::store(to, with_group<V>(before, dots[i][j], x, zeros, corrected));
        }
      }
    }
  }
}

// Rows `first` to `first` + kRows of the tile, by the function for the format.
template <typename D, int kBits, int kRows, int kWide, int kWidth = kRows>
void rows_of(const QgemmWqTile& t, int64_t first) {
  const WqZeros zeros = t.format->zeros;
  if (t.starts == nullptr || zeros == WqZeros::reals) {
    return tile_of<D, kBits, kRows, kWide, kWidth>(t, first);
  }
  std::fill_n(t.sums + first * kWqColumns, kRows * kWqColumns, 0.0f);
  using Small = CenteredTile<D, kBits, kRows, kWide, kWidth, true>;
  using Large = CenteredTile<D, kBits, kRows, kWide, kWidth, false>;
  const bool small = t.format->group <= kWqStart;
  if (zeros == WqZeros::none) {
    small ? Small::template run<false>(t, first) : Large::template run<false>(t, first);
  } else {
    small ? Small::template run<true>(t, first) : Large::template run<true>(t, first);
  }
}

template <typename D, int kBits>
void tile_by_rows(const QgemmWqTile& t) {
  constexpr int kWide = D::template kWide<kBits>;
  switch (t.width) {
    case 1:
      return rows_of<D, kBits, 1, D::Floats::kVectors>(t, 0);
    case 2:
      return rows_of<D, kBits, 2, 2>(t, 0);
    case 3:
      return rows_of<D, kBits, 3, kWide>(t, 0);
    case 4:
      return rows_of<D, kBits, 4, kWide>(t, 0);
    default:
      if constexpr (D::kRows == 8) {
        return rows_of<D, kBits, 8, kWide>(t, 0);
      }
      rows_of<D, kBits, 4, kWide, 8>(t, 0);
      rows_of<D, kBits, 4, kWide, 8>(t, 4);
  }
}

template <typename D>
CPUACCEL_INLINE void tile(const QgemmWqTile& t) {
  t.format->bits == 4 ? tile_by_rows<D, 4>(t) : tile_by_rows<D, 8>(t);
}

}  // namespace
}  // namespace cpuaccel::kernels
