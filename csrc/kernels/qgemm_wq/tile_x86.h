// Innermost loops of qgemm_wq. D is an ISA's class of products:
//
//   Floats              the vector class of gemm_wq/avx2.h or avx512.h; Int: its integers
//   Codes, split<bits>  the codes of a dword as unsigned bytes, those of 8 bits plus 128
//   Part<bits>          sums of products; clear; begin: with centered codes (QgemmWqTile::starts);
//                       add: of a dword of codes; as_ints
//   kPartial            k whose products a Part holds
//
// Included by x86's sources only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/unroll.h"
#include "kernels/gemm_wq/group_end.h"
#include "kernels/inline.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {
namespace {

template <int kBits>
constexpr int kOffset = kBits == 4 ? 0 : 128;

// Sums of products of kRows rows and kWide vectors of columns.
template <typename D, int kBits, int kRows, int kWide>
struct Parts {
  typename D::template Part<kBits> of[kRows][kWide];

  // Adds those of some dwords of codes, at most kPartial k since the parts began.
  CPUACCEL_INLINE void add(const int32_t*& rows, int64_t width, const std::byte*& codes,
                           int64_t dwords, const ReadAhead& ahead) {
    for (; dwords > 0; --dwords) {
      ask_for_few_rows<kRows, kWide * D::Floats::kLanes * 4>(ahead, codes);
      typename D::Codes split[kWide];
      CPUACCEL_UNROLL
      for (int j = 0; j < kWide; ++j) {
        split[j] =
            D::template split<kBits>(D::Floats::load_dwords(codes + j * 4 * D::Floats::kLanes));
      }
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const auto first = D::set1(rows[i]);
        const auto second = kBits == 4 ? D::set1(rows[width + i]) : first;
        CPUACCEL_UNROLL
        for (int j = 0; j < kWide; ++j) {
          of[i][j].add(split[j], first, second);
        }
      }
      rows += wq_run(kBits) / 4 * width;
      codes += 4 * kWqColumns;
      // Keeps the compiler from loading several dwords ahead, which would spill the sums.
      asm volatile("" : "+r"(codes), "+r"(rows));
    }
  }
};

// Rows `first` to `first` + kRows of the tile, for groups that have starts and, unless kCentered,
// zero points of integers. Half of the time of such groups was their end.
template <typename D, int kBits, int kRows, int kWide, bool kCentered>
void tile_of_small_groups(const QgemmWqTile& t, int64_t first) {
  using V = typename D::Floats;
  const WqLayout& layout = *t.layout;
  constexpr int64_t kRun = wq_run(kBits);
  const int64_t dwords = (t.format->group + kRun - 1) / kRun;
  const ReadAhead ahead = read_ahead();
  for (int64_t g = 0; g < layout.groups; ++g) {
    const std::byte* of_group = t.panel + g * layout.group_bytes();
    const std::byte* scales = of_group + layout.code_bytes;
    for (int64_t v = 0; v < V::kVectors; v += kWide) {
      const std::byte* codes = of_group + v * 4 * V::kLanes;
      const int32_t* rows = t.rows + g * dwords * kRun / 4 * t.width + first;
      Parts<D, kBits, kRows, kWide> parts;
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const auto start = D::template start<kBits>(t.starts[g * t.width + first + i]);
        CPUACCEL_UNROLL
        for (int j = 0; j < kWide; ++j) {
          parts.of[i][j].begin(start);
        }
      }
      parts.add(rows, t.width, codes, dwords, ahead);
      CPUACCEL_UNROLL
      for (int j = 0; j < kWide; ++j) {
        const int64_t column = (v + j) * V::kLanes;
        const auto scale = V::load_scales(scales, column, t.format->scales);
        CPUACCEL_UNROLL
        for (int i = 0; i < kRows; ++i) {
          float* to = t.sums + (first + i) * kWqColumns + column;
          auto sum = D::to_floats(parts.of[i][j].as_ints());
          if constexpr (!kCentered) {
            const auto zeros = V::load_integers(scales + layout.scale_bytes + column);
            const auto off = V::add(zeros, V::set1(kBits == 4 ? -8.0f : 0.0f));
            sum = V::minus_product(sum, off, V::set1(t.row_sums[g * t.width + first + i]));
          }
          V::store(to, V::fma(scale, sum, V::load(to)));
        }
      }
    }
  }
}

// Rows `first` to `first` + kRows of the tile.
template <typename D, int kBits, int kRows, int kWide>
void tile_of(const QgemmWqTile& t, int64_t first) {
  using V = typename D::Floats;
  const WqFormat& format = *t.format;
  const WqLayout& layout = *t.layout;
  const bool corrected = is_corrected<kBits, kOffset<kBits>>(format);
  constexpr int64_t kRun = wq_run(kBits);
  const int64_t group = (format.group + kRun - 1) / kRun;  // dwords
  const ReadAhead ahead = read_ahead();
  for (int64_t g = 0; g < layout.groups; ++g) {
    const std::byte* of_group = t.panel + g * layout.group_bytes();
    for (int64_t v = 0; v < V::kVectors; v += kWide) {
      const std::byte* codes = of_group + v * 4 * V::kLanes;
      const int32_t* rows = t.rows + g * group * kRun / 4 * t.width + first;
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
        for (int64_t d = done; d < end; d += D::kPartial / kRun) {
          Parts<D, kBits, kRows, kWide> parts;
          CPUACCEL_UNROLL
          for (int i = 0; i < kRows * kWide; ++i) {
            parts.of[i / kWide][i % kWide].clear();
          }
          parts.add(rows, t.width, codes, std::min(D::kPartial / kRun, end - d), ahead);
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
        const auto zeros = zeros_of<V, kBits, kOffset<kBits>>(of_group + layout.code_bytes, format,
                                                              layout, column);
        CPUACCEL_UNROLL
        for (int i = 0; i < kRows; ++i) {
          float* to = t.sums + (first + i) * kWqColumns + column;
          const auto before = g == 0 ? V::set1(0.0f) : V::load(to);
          const float x = t.row_sums[g * t.width + first + i];
          V::store(to, with_group<V>(before, dots[i][j], x, zeros, corrected));
        }
      }
    }
  }
}

// The function of these rows, for the format.
template <typename D, int kBits, int kRows, int kWide>
void rows_of(const QgemmWqTile& t, int64_t first) {
  const WqZeros zeros = t.format->zeros;
  if (t.starts == nullptr || zeros == WqZeros::reals) {
    return tile_of<D, kBits, kRows, kWide>(t, first);
  }
  std::fill_n(t.sums + first * kWqColumns, kRows * kWqColumns, 0.0f);
  zeros == WqZeros::none ? tile_of_small_groups<D, kBits, kRows, kWide, true>(t, first)
                         : tile_of_small_groups<D, kBits, kRows, kWide, false>(t, first);
}

template <typename D, int kBits>
void tile_by_rows(const QgemmWqTile& t) {
  constexpr int kWide = D::template kWide<kBits>;
  switch (t.width) {
    case 1:
      return rows_of<D, kBits, 1, D::Floats::kVectors>(t, 0);
    case 2:
      return rows_of<D, kBits, 2, 2>(t, 0);
    case 4:
      return rows_of<D, kBits, 4, kWide>(t, 0);
    default:
      if constexpr (D::kRows == 8) {
        return rows_of<D, kBits, 8, kWide>(t, 0);
      }
      rows_of<D, kBits, 4, kWide>(t, 0);
      rows_of<D, kBits, 4, kWide>(t, 4);
  }
}

template <typename D>
CPUACCEL_INLINE void tile(const QgemmWqTile& t) {
  t.format->bits == 4 ? tile_by_rows<D, 4>(t) : tile_by_rows<D, 8>(t);
}

}  // namespace
}  // namespace cpuaccel::kernels
