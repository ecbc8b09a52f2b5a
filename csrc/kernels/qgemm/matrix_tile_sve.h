// Innermost loop of qgemm with SMMLA of SVE: as matrix_tile_neon.h, for three vectors of columns
// whose length is known only at run time. Included by the ISA source only.
#pragma once

#include <arm_sve.h>

#include <cstdint>

#include "kernels/inline.h"
#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kTileRows = 8;

CPUACCEL_INLINE int64_t tile_columns() { return 3 * static_cast<int64_t>(svcntw()); }

CPUACCEL_INLINE void accumulate_pairs(svint32_t& sum, svint8_t a, svint8_t b) {
  asm("smmla %0.s, %1.b, %2.b" : "+w"(sum) : "w"(a), "w"(b));
}

template <bool kAdd>
CPUACCEL_INLINE void store_vector(int32_t* to, svint32_t sum) {
  const svbool_t all = svptrue_b32();
  if constexpr (kAdd) {
    sum = svadd_x(all, sum, svld1(all, to));
  }
  svst1(all, to, sum);
}

CPUACCEL_INLINE svint32_t first_rows(svint32_t low, svint32_t high) {
  return svreinterpret_s32(svuzp1(svreinterpret_s64(low), svreinterpret_s64(high)));
}
CPUACCEL_INLINE svint32_t second_rows(svint32_t low, svint32_t high) {
  return svreinterpret_s32(svuzp2(svreinterpret_s64(low), svreinterpret_s64(high)));
}

// Stores a vector of columns for two rows, or for the first one only.
template <bool kAdd>
CPUACCEL_INLINE void store_both(int32_t* to, bool second, svint32_t low, svint32_t high) {
  store_vector<kAdd>(to, first_rows(low, high));
  if (second) {
    store_vector<kAdd>(to + tile_columns(), second_rows(low, high));
  }
}

template <bool kAdd, int kVectors>
CPUACCEL_INLINE void store_pair(int32_t* to, bool second, svint32_t s0, svint32_t s1, svint32_t s2,
                                svint32_t s3, svint32_t s4, svint32_t s5) {
  const auto width = static_cast<int64_t>(svcntw());
  store_both<kAdd>(to, second, s0, s1);
  if constexpr (kVectors > 1) {
    store_both<kAdd>(to + width, second, s2, s3);
  }
  if constexpr (kVectors > 2) {
    store_both<kAdd>(to + 2 * width, second, s4, s5);
  }
}

// Multiplies pairs of rows by half a vector of columns. With one pair, its products are added to
// the sums of pair kFirst.
template <int kPairs, int kFirst>
CPUACCEL_INLINE void column_step(svint32_t& s0, svint32_t& s1, svint32_t& s2, svint32_t& s3,
                                 svint8_t a0, svint8_t a1, svint8_t a2, svint8_t a3, svint8_t b) {
  accumulate_pairs(kFirst == 0 ? s0 : s1, a0, b);
  if constexpr (kPairs > 1) {
    accumulate_pairs(s1, a1, b);
  }
  if constexpr (kPairs > 2) {
    accumulate_pairs(s2, a2, b);
  }
  if constexpr (kPairs > 3) {
    accumulate_pairs(s3, a3, b);
  }
}

// Sums are named for their pair of rows and their half vector of columns, because sizeless types
// cannot form arrays. With one pair of rows, odd runs use the sums of the second pair to hide the
// latency.
template <int kPairs, int kVectors>
void matrix_tile(const QgemmTile& t) {
  svint32_t s00 = svdup_s32(0), s01 = s00, s02 = s00, s03 = s00, s04 = s00, s05 = s00;
  svint32_t s10 = s00, s11 = s00, s12 = s00, s13 = s00, s14 = s00, s15 = s00;
  svint32_t s20 = s00, s21 = s00, s22 = s00, s23 = s00, s24 = s00, s25 = s00;
  svint32_t s30 = s00, s31 = s00, s32 = s00, s33 = s00, s34 = s00, s35 = s00;
  const svbool_t all = svptrue_b8();
  const int8_t* rows = t.rows + t.first_run * 16 * kPairs;
  const int8_t* panel = t.panel + t.first_run * 8 * tile_columns();
  const auto step = [&]<int kFirst>() __attribute__((always_inline)) {
    const svint8_t a0 = svld1rq(all, rows);
    const svint8_t a1 = kPairs > 1 ? svld1rq(all, rows + 16) : a0;
    const svint8_t a2 = kPairs > 2 ? svld1rq(all, rows + 32) : a0;
    const svint8_t a3 = kPairs > 3 ? svld1rq(all, rows + 48) : a0;
    column_step<kPairs, kFirst>(s00, s10, s20, s30, a0, a1, a2, a3, svld1_vnum(all, panel, 0));
    column_step<kPairs, kFirst>(s01, s11, s21, s31, a0, a1, a2, a3, svld1_vnum(all, panel, 1));
    if constexpr (kVectors > 1) {
      column_step<kPairs, kFirst>(s02, s12, s22, s32, a0, a1, a2, a3, svld1_vnum(all, panel, 2));
      column_step<kPairs, kFirst>(s03, s13, s23, s33, a0, a1, a2, a3, svld1_vnum(all, panel, 3));
    }
    if constexpr (kVectors > 2) {
      column_step<kPairs, kFirst>(s04, s14, s24, s34, a0, a1, a2, a3, svld1_vnum(all, panel, 4));
      column_step<kPairs, kFirst>(s05, s15, s25, s35, a0, a1, a2, a3, svld1_vnum(all, panel, 5));
    }
    rows += 16 * kPairs;
    panel += 6 * svcntb();
    // Keeps the compiler from loading several runs ahead, which would spill the sums.
    asm volatile("" : "+r"(panel), "+r"(rows));
  };
  for (int64_t left = t.runs / 2; left > 0; --left) {
    step.template operator()<0>();
    step.template operator()<kPairs == 1 ? 1 : 0>();
  }
  if (t.runs % 2 != 0) {
    step.template operator()<0>();
  }
  if constexpr (kPairs == 1) {
    const svbool_t lanes = svptrue_b32();
    s00 = svadd_x(lanes, s00, s10);
    s01 = svadd_x(lanes, s01, s11);
    s02 = svadd_x(lanes, s02, s12);
    s03 = svadd_x(lanes, s03, s13);
    s04 = svadd_x(lanes, s04, s14);
    s05 = svadd_x(lanes, s05, s15);
  }
  const int64_t two_rows = 2 * tile_columns();
  const auto store = [&]<bool kAdd>() __attribute__((always_inline)) {
    store_pair<kAdd, kVectors>(t.sums, t.m > 1, s00, s01, s02, s03, s04, s05);
    if constexpr (kPairs > 1) {
      store_pair<kAdd, kVectors>(t.sums + two_rows, t.m > 3, s10, s11, s12, s13, s14, s15);
    }
    if constexpr (kPairs > 2) {
      store_pair<kAdd, kVectors>(t.sums + 2 * two_rows, t.m > 5, s20, s21, s22, s23, s24, s25);
    }
    if constexpr (kPairs > 3) {
      store_pair<kAdd, kVectors>(t.sums + 3 * two_rows, t.m > 7, s30, s31, s32, s33, s34, s35);
    }
  };
  t.add ? store.template operator()<true>() : store.template operator()<false>();
}

template <int kVectors>
void matrix_tiles_of(const QgemmTile& t) {
  switch ((t.m + 1) / 2) {
    case 1:
      return matrix_tile<1, kVectors>(t);
    case 2:
      return matrix_tile<2, kVectors>(t);
    case 3:
      return matrix_tile<3, kVectors>(t);
    default:
      return matrix_tile<4, kVectors>(t);
  }
}

void matrix_tiles(const QgemmTile& t) {
  const auto width = static_cast<int64_t>(svcntw());
  if (t.n > 2 * width) {
    matrix_tiles_of<3>(t);
  } else {
    t.n > width ? matrix_tiles_of<2>(t) : matrix_tiles_of<1>(t);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
