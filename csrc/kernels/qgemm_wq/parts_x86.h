// Sums of integers of qgemm_wq's tiles on x86. D is an ISA's class of products:
//
//   Floats              the vector class of gemm_wq/avx2.h or avx512.h; Int: its integers
//   Codes, split<bits>  the codes of a dword, plus kOffset<bits>, for Part
//   Part<bits>          sums of products; clear; begin: with centered codes (QgemmWqTile::starts);
//                       add: of a dword of codes; as_ints
//   kPartial<bits>      k whose products a Part holds
//   kRowDwords<bits>    dwords of a row for a dword of codes
//
// Included by x86's sources only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {
namespace {

// How a tile reads its panel: QgemmWqTile::prefetches.
struct PanelReading {
  ReadAhead ahead = read_ahead();
  bool prefetches;
};

// Sums of products of kRows rows, of a tile of kWidth, and kWide vectors of columns.
template <typename D, int kBits, int kRows, int kWide, int kWidth>
struct Parts {
  static constexpr int64_t kRowDwords = D::template kRowDwords<kBits>;
  typename D::template Part<kBits> of[kRows][kWide];

  // Adds those of some dwords of codes, at most kPartial k since the parts began. kKnown: their
  // number if it is known.
  template <int64_t kKnown = 0>
  CPUACCEL_INLINE void add(const int32_t*& rows, const std::byte*& codes, int64_t dwords,
                           const PanelReading& reading) {
    if constexpr (kKnown != 0 && kFew) {
      CPUACCEL_UNROLL
      for (int64_t i = 0; i < kKnown; ++i) {
        add_one(rows, codes, reading);
      }
    } else {
      // Unrolled, the compiler would delay additions and spill the products.
#pragma GCC unroll 1
      for (int64_t left = kKnown != 0 ? kKnown : dwords; left > 0; --left) {
        add_one(rows, codes, reading);
      }
    }
  }

 private:
  static constexpr bool kFew = kRows < 4;  // there are registers to spare

  CPUACCEL_INLINE void add_one(const int32_t*& rows, const std::byte*& codes,
                               const PanelReading& reading) {
    if (kFew || reading.prefetches) {
      ask_for_few_rows<kRows, kWide * D::Floats::kLanes * 4>(reading.ahead, codes);
    }
    typename D::Codes split[kWide];
    CPUACCEL_UNROLL
    for (int j = 0; j < kWide; ++j) {
      split[j] =
          D::template split<kBits>(D::Floats::load_dwords(codes + j * 4 * D::Floats::kLanes));
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const auto first = D::set1(rows[i]);
      const auto second = kRowDwords == 2 ? D::set1(rows[kWidth + i]) : first;
      CPUACCEL_UNROLL
      for (int j = 0; j < kWide; ++j) {
        of[i][j].add(split[j], first, second);
      }
      if constexpr (!kFew) {
        // Keeps the compiler from loading several rows ahead, which would spill the sums.
        asm volatile("" : "+r"(rows));
      }
    }
    rows += kRowDwords * kWidth;
    codes += 4 * kWqColumns;
    asm volatile("" : "+r"(codes), "+r"(rows));  // likewise of the next codes
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
