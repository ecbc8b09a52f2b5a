// Innermost loops of qgemm_wq. D is an ISA's class of products:
//
//   Floats              the vector class of gemm_wq/avx2.h or avx512.h; Int: its integers
//   Codes, split<bits>  the codes of a dword as unsigned bytes, those of 8 bits plus 128
//   Part<bits>          sums of products; add: of a dword of codes; as_ints
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

namespace cpuaccel::kernels {
namespace {

template <int kBits>
constexpr int kOffset = kBits == 4 ? 0 : 128;

// Sums of kRows rows times kWide vectors of columns over some dwords of codes, at most kPartial k.
template <typename D, int kBits, int kRows, int kWide>
CPUACCEL_INLINE void add_part(typename D::Int (&sums)[kRows][kWide], const int32_t*& rows,
                              int64_t width, const std::byte*& codes, int64_t dwords) {
  typename D::template Part<kBits> parts[kRows][kWide];
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows * kWide; ++i) {
    parts[i / kWide][i % kWide].clear();
  }
  for (; dwords > 0; --dwords) {
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
        parts[i][j].add(split[j], first, second);
      }
    }
    rows += wq_run(kBits) / 4 * width;
    codes += 4 * kWqColumns;
    // Keeps the compiler from loading several dwords ahead, which would spill the sums.
    asm volatile("" : "+r"(codes), "+r"(rows));
  }
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows * kWide; ++i) {
    auto& sum = sums[i / kWide][i % kWide];
    sum = D::add(sum, parts[i / kWide][i % kWide].as_ints());
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
          add_part<D, kBits>(sums, rows, t.width, codes, std::min(D::kPartial / kRun, end - d));
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

template <typename D, int kBits>
void tile_by_rows(const QgemmWqTile& t) {
  switch (t.width) {
    case 1:
      return tile_of<D, kBits, 1, D::Floats::kVectors>(t, 0);
    case 2:
      return tile_of<D, kBits, 2, 2>(t, 0);
    case 4:
      return tile_of<D, kBits, 4, D::template kWide<kBits>>(t, 0);
    default:
      if constexpr (D::kRows == 8) {
        return tile_of<D, kBits, 8, D::template kWide<kBits>>(t, 0);
      }
      tile_of<D, kBits, 4, D::template kWide<kBits>>(t, 0);
      tile_of<D, kBits, 4, D::template kWide<kBits>>(t, 4);
  }
}

template <typename D>
CPUACCEL_INLINE void tile(const QgemmWqTile& t) {
  t.format->bits == 4 ? tile_by_rows<D, 4>(t) : tile_by_rows<D, 8>(t);
}

}  // namespace
}  // namespace cpuaccel::kernels
