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

// What codes become weights by, at each place: exact multiples of Zeros by powers of two. kOne: an
// fma of codes, because zero * scale is exact.
template <typename V, bool kOne>
struct Weighing {
  typename V::Vector scale[4], zero[4], real;

  CPUACCEL_INLINE typename V::Vector weights(typename V::Vector codes, int place) const {
    const auto from_zero = kOne ? codes : V::subtract(codes, zero[place]);
    return V::fma(from_zero, scale[place], real);
  }
};

template <typename V, int kBits, bool kOne>
CPUACCEL_INLINE Weighing<V, kOne> weighing_of(const Zeros<V>& zeros) {
  constexpr auto kPlaces = kBits == 4 ? V::kPlaces4 : V::kPlaces8;
  Weighing<V, kOne> by;
  by.real = kOne ? V::minus_product(zeros.real, zeros.zero, zeros.scale) : zeros.real;
  CPUACCEL_UNROLL
  for (int i = 0; i < 4; ++i) {
    by.scale[i] = V::multiply(zeros.scale, V::set1(kPlaces[i]));
    by.zero[i] = V::multiply(zeros.zero, V::set1(1.0f / kPlaces[i]));
  }
  return by;
}

// Whether the products of zeros and scales are exact, and no `reals` are added to them.
inline bool is_one_fma(const WqFormat& format) {
  return format.zeros == WqZeros::none ||
         (format.zeros == WqZeros::integers && format.scales != DataType::f32);
}

// The weights of one run, from k number kStep on.
template <typename V, int kBits, int kStep = 0, typename By>
CPUACCEL_INLINE void unpack_step(typename V::Dwords dwords, const By& by, float* dst, int64_t nr) {
  if constexpr (kStep < wq_run(kBits)) {
    if constexpr (kStep == 4) {
      dwords = V::upper_half(dwords);
    }
    V::store(dst, by.weights(V::template code<kBits, kStep>(dwords), kStep % 4));
    unpack_step<V, kBits, kStep + 1>(dwords, by, dst + nr, nr);
  }
}

// A part of a run: the k in [begin, end).
template <typename V, int kBits, typename By>
void unpack_part(typename V::Dwords dwords, const By& by, int64_t begin, int64_t end, float* dst,
                 int64_t nr) {
  float whole[wq_run(kBits) * V::kLanes];
  unpack_step<V, kBits>(dwords, by, whole, V::kLanes);
  for (int64_t i = begin; i < end; ++i) {
    V::store(dst + (i - begin) * nr, V::load(whole + i * V::kLanes));
  }
}

// The k of a group in [begin, end), of kLanes columns.
template <typename V, int kBits, typename By>
CPUACCEL_INLINE void unpack_group(const std::byte* codes, const By& by, int64_t begin, int64_t end,
                                  float* dst, int64_t nr) {
  constexpr int64_t kRun = wq_run(kBits);
  const auto run = [&](int64_t k) { return V::load_dwords(codes + k / kRun * kWqColumns * 4); };
  int64_t k = begin;
  if (const int64_t in_run = begin % kRun; in_run != 0) [[unlikely]] {
    const int64_t count = std::min(kRun - in_run, end - begin);
    unpack_part<V, kBits>(run(k), by, in_run, in_run + count, dst, nr);
    dst += count * nr;
    k += count;
  }
  for (; k + kRun <= end; k += kRun, dst += kRun * nr) {
    unpack_step<V, kBits>(run(k), by, dst, nr);
  }
  if (k < end) [[unlikely]] {
    unpack_part<V, kBits>(run(k), by, 0, end - k, dst, nr);
  }
}

template <typename V, int kBits, bool kOne>
void unpack_as(const WqUnpack& u) {
  const WqFormat& format = *u.format;
  const int64_t group_bytes = u.layout->group_bytes(), first = u.k0 / format.group;
  for (int64_t n = 0; n < u.columns; n += V::kLanes) {
    const int64_t column = u.column + n;
    const std::byte* group = u.panel + first * group_bytes;
    float* dst = u.dst(u.k0, n);
    int64_t begin = u.k0 - first * format.group;
    for (int64_t left = u.depth; left > 0; group += group_bytes, begin = 0) {
      const int64_t count = std::min(left, format.group - begin);
      const auto zeros = zeros_of<V, kBits, V::template kOffset<kBits>>(
          group + u.layout->code_bytes, format, *u.layout, column);
      unpack_group<V, kBits>(group + column * 4, weighing_of<V, kBits, kOne>(zeros), begin,
                             begin + count, dst, u.nr);
      dst += count * u.nr;
      left -= count;
    }
  }
}

template <typename V, int kBits>
void unpack_of(const WqUnpack& u) {
  is_one_fma(*u.format) ? unpack_as<V, kBits, true>(u) : unpack_as<V, kBits, false>(u);
}

template <typename V>
void unpack(const WqUnpack& u) {
  u.format->bits == 4 ? unpack_of<V, 4>(u) : unpack_of<V, 8>(u);
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
