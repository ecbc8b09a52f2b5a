// Innermost loops of gemm_wq. V is an ISA's class:
//
//   kVectors                vectors of kLanes columns in a panel
//   load_dwords             codes of a run, of kLanes columns
//   code<bits, k>           the codes of the run's k, times 1 / places[k % 4]; 4 bits from k = 4
//   on:
//                           of dwords behind upper_half
//   centered<bits>          whether they have the center subtracted
//   load_scales, load_integers   kLanes scales or zero points as floats
//
// Included by x86's sources only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/unroll.h"
#include "kernels/gemm_wq/gemm_wq.h"
#include "kernels/gemm_wq/group_end.h"
#include "kernels/inline.h"
#include "kernels/read_ahead.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

// Sums over the k of a run, from number kStep on, in kSets sets.
template <typename V, int kBits, int kStep = 0, int kSets, int kRows, int kWide>
CPUACCEL_INLINE void run_step(typename V::Vector (&sums)[kSets][kRows][kWide],
                              typename V::Dwords (&dwords)[kWide], const float* rows) {
  if constexpr (kStep < wq_run(kBits)) {
    if constexpr (kStep == 4) {
      CPUACCEL_UNROLL
      for (int j = 0; j < kWide; ++j) {
        dwords[j] = V::upper_half(dwords[j]);
      }
    }
    typename V::Vector codes[kWide];
    CPUACCEL_UNROLL
    for (int j = 0; j < kWide; ++j) {
      codes[j] = V::template code<kBits, kStep>(dwords[j]);
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const auto x = V::set1(rows[kStep * kRows + i]);
      CPUACCEL_UNROLL
      for (int j = 0; j < kWide; ++j) {
        auto& sum = sums[kStep % kSets][i][j];
        sum = V::fma(x, codes[j], sum);
      }
    }
    run_step<V, kBits, kStep + 1>(sums, dwords, rows);
  }
}

// kWide vectors of columns times kRows rows, over the runs of a group.
template <typename V, int kBits, int kSets, int kRows, int kWide>
CPUACCEL_INLINE void group_sums(typename V::Vector (&sums)[kSets][kRows][kWide], const float* rows,
                                const std::byte* codes, int64_t runs, const ReadAhead& ahead) {
  CPUACCEL_UNROLL
  for (int i = 0; i < kSets * kRows * kWide; ++i) {
    sums[i / (kRows * kWide)][i / kWide % kRows][i % kWide] = V::set1(0.0f);
  }
  for (; runs > 0; --runs) {
    ask_for_few_rows<kRows, kWide * V::kLanes * 4>(ahead, codes);
    typename V::Dwords dwords[kWide];
    CPUACCEL_UNROLL
    for (int j = 0; j < kWide; ++j) {
      dwords[j] = V::load_dwords(codes + j * 4 * V::kLanes);
    }
    run_step<V, kBits>(sums, dwords, rows);
    rows += wq_run(kBits) * kRows;
    codes += 4 * kWqColumns;
    // Keeps the compiler from loading several runs ahead, which would spill the sums.
    asm volatile("" : "+r"(codes), "+r"(rows));
  }
  CPUACCEL_UNROLL
  for (int s = 1; s < kSets; ++s) {
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows * kWide; ++i) {
      auto& sum = sums[0][i / kWide][i % kWide];
      sum = V::add(sum, sums[s][i / kWide][i % kWide]);
    }
  }
}

template <typename V, int kBits, int kRows, int kWide, int kSets>
void tile_of(const WqTile& t) {
  constexpr int kOffset = V::template kOffset<kBits>;
  const WqFormat& format = *t.format;
  const WqLayout& layout = *t.layout;
  const bool corrected = is_corrected<kBits, kOffset>(format);
  const int64_t runs = divide_up(format.group, int64_t{wq_run(kBits)});
  const ReadAhead ahead = read_ahead();
  const float* rows = t.rows;
  const float* row_sums = t.row_sums;
  const std::byte* codes = t.panel;
  for (int64_t g = 0; g < layout.groups; ++g) {
    const std::byte* scales = codes + layout.code_bytes;
    for (int64_t v = 0; v < V::kVectors; v += kWide) {
      typename V::Vector sums[kSets][kRows][kWide];
      group_sums<V, kBits>(sums, rows, codes + v * 4 * V::kLanes, runs, ahead);
      CPUACCEL_UNROLL
      for (int j = 0; j < kWide; ++j) {
        const int64_t column = (v + j) * V::kLanes;
        const auto zeros = zeros_of<V, kBits, kOffset>(scales, format, layout, column);
        CPUACCEL_UNROLL
        for (int i = 0; i < kRows; ++i) {
          float* to = t.sums + i * kWqColumns + column;
          const auto before = g == 0 ? V::set1(0.0f) : V::load(to);
          V::store(to, with_group<V>(before, sums[0][i][j], row_sums[i], zeros, corrected));
        }
      }
    }
    rows += runs * wq_run(kBits) * kRows;
    row_sums += kRows;
    codes += layout.group_bytes();
  }
}

template <typename V, int kBits>
void tile_by_rows(const WqTile& t) {
  switch (t.width) {
    case 1:
      return tile_of<V, kBits, 1, V::kVectors, 8 / V::kVectors>(t);
    case 2:
      return tile_of<V, kBits, 2, V::kVectors, 4 / V::kVectors>(t);
    case 4:
      return tile_of<V, kBits, 4, 2, 1>(t);
    case 6:
      return tile_of<V, kBits, 6, V::kVectors == 2 ? 2 : 1, 1>(t);
    default:
      return tile_of<V, kBits, 8, V::kVectors == 2 ? 2 : 1, 1>(t);
  }
}

template <typename V>
void tile(const WqTile& t) {
  t.format->bits == 4 ? tile_by_rows<V, 4>(t) : tile_by_rows<V, 8>(t);
}

// What codes become weights by, at each place: exact multiples of Zeros by powers of two.
template <typename V>
struct Weighing {
  typename V::Vector scale[4], zero[4], real;
};

template <typename V, int kBits>
CPUACCEL_INLINE Weighing<V> weighing_of(const Zeros<V>& zeros) {
  constexpr auto kPlaces = kBits == 4 ? V::kPlaces4 : V::kPlaces8;
  Weighing<V> by;
  by.real = zeros.real;
  CPUACCEL_UNROLL
  for (int i = 0; i < 4; ++i) {
    by.scale[i] = V::multiply(zeros.scale, V::set1(kPlaces[i]));
    by.zero[i] = V::multiply(zeros.zero, V::set1(1.0f / kPlaces[i]));
  }
  return by;
}

// The weights of one run, from k number kStep on.
template <typename V, int kBits, int kStep = 0>
CPUACCEL_INLINE void unpack_step(typename V::Dwords dwords, const Weighing<V>& by, float* dst,
                                 int64_t nr) {
  if constexpr (kStep < wq_run(kBits)) {
    constexpr int kPlace = kStep % 4;
    if constexpr (kStep == 4) {
      dwords = V::upper_half(dwords);
    }
    const auto code = V::subtract(V::template code<kBits, kStep>(dwords), by.zero[kPlace]);
    V::store(dst, V::fma(code, by.scale[kPlace], by.real));
    unpack_step<V, kBits, kStep + 1>(dwords, by, dst + nr, nr);
  }
}

// The k of a group in [begin, end), of kLanes columns.
template <typename V, int kBits>
CPUACCEL_INLINE void unpack_group(const std::byte* codes, const Weighing<V>& by, int64_t begin,
                                  int64_t end, float* dst, int64_t nr) {
  constexpr int64_t kRun = wq_run(kBits);
  for (int64_t k = begin / kRun * kRun; k < end; k += kRun) {
    const auto dwords = V::load_dwords(codes + k / kRun * kWqColumns * 4);
    if (k >= begin && k + kRun <= end) [[likely]] {
      unpack_step<V, kBits>(dwords, by, dst + (k - begin) * nr, nr);
      continue;
    }
    float whole[kRun * V::kLanes];
    unpack_step<V, kBits>(dwords, by, whole, V::kLanes);
    for (int64_t i = std::max(k, begin); i < std::min(k + kRun, end); ++i) {
      V::store(dst + (i - begin) * nr, V::load(whole + (i - k) * V::kLanes));
    }
  }
}

template <typename V, int kBits>
void unpack_as(const WqUnpack& u) {
  const WqFormat& format = *u.format;
  for (int64_t done = 0; done < u.depth;) {
    const int64_t k = u.k0 + done, begin = k % format.group;
    const int64_t end = std::min(begin + u.depth - done, format.group);
    const std::byte* group = u.panel + k / format.group * u.layout->group_bytes();
    for (int64_t n = 0; n < u.columns; n += V::kLanes) {
      const int64_t column = u.column + n;
      const auto zeros = zeros_of<V, kBits, V::template kOffset<kBits>>(
          group + u.layout->code_bytes, format, *u.layout, column);
      unpack_group<V, kBits>(group + column * 4, weighing_of<V, kBits>(zeros), begin, end,
                             u.dst(k, n), u.nr);
    }
    done += end - begin;
  }
}

template <typename V>
void unpack(const WqUnpack& u) {
  u.format->bits == 4 ? unpack_as<V, 4>(u) : unpack_as<V, 8>(u);
}

template <typename V, int64_t kByteRows = 0, QgemmWqFunction* kByBytes = nullptr>
constexpr GemmWqKernels kGemmWq{.places4 = V::kPlaces4,
                                .places8 = V::kPlaces8,
                                .tile = tile<V>,
                                .unpack = unpack<V>,
                                .byte_rows = kByteRows,
                                .by_bytes = kByBytes};

}  // namespace
}  // namespace cpuaccel::kernels
