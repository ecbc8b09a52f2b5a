// Tiles of qgemm_wq on x86 for formats whose codes can be centered before the end of a group: it
// takes a conversion and one fma, and two more with zero points. parts_x86.h describes D. Included
// by x86's sources only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm_wq/parts_x86.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {
namespace {

// A tile's shape: kRows of kWidth rows, kWide vectors of columns. kSmall: groups of up to kWqStart.
template <typename D, int kBits, int kRows, int kWide, int kWidth, bool kSmall>
struct CenteredTile {
  using V = typename D::Floats;
  static constexpr int64_t kRun = wq_run(kBits);
  // Dwords of a block, whose products a Part holds.
  static constexpr int64_t kBlock = (kSmall ? kWqStart : D::template kPartial<kBits>) / kRun;
  // A group is one block.
  static constexpr bool kOne = kSmall || D::template kPartial<kBits> >= kWqIntegers;
  using Sums = typename D::Int[kRows][kWide];

  CPUACCEL_INLINE static auto start_of(const int32_t* starts, int i) {
    if constexpr (kBits == 8 && D::template kOffset<kBits> == 0) {
      return D::set1(0);  // they are centered
    } else if constexpr (kSmall) {
      return D::template start<kBits>(starts[i]);
    } else {
      return D::set1(kBits == 4 ? starts[i] : 16 * starts[i]);
    }
  }

  // The sums of a group of some dwords.
  CPUACCEL_INLINE static void add_group(Sums& sums, const int32_t* starts, const int32_t* rows,
                                        const std::byte* codes, int64_t dwords,
                                        const PanelReading& reading) {
    Parts<D, kBits, kRows, kWide, kWidth> parts;
    if constexpr (kOne) {
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows * kWide; ++i) {
        parts.of[i / kWide][i % kWide].begin(start_of(starts, i / kWide));
      }
      if (kSmall && dwords == kBlock) [[likely]] {
        parts.template add<kSmall ? kBlock : 1>(rows, codes, dwords, reading);
      } else {
        parts.add(rows, codes, dwords, reading);
      }
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows * kWide; ++i) {
        sums[i / kWide][i % kWide] = parts.of[i / kWide][i % kWide].as_ints();
      }
    } else {
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows * kWide; ++i) {
        sums[i / kWide][i % kWide] = start_of(starts, i / kWide);
      }
      const auto add_block = [&]<int64_t kKnown>() __attribute__((always_inline)) {
        CPUACCEL_UNROLL
        for (int i = 0; i < kRows * kWide; ++i) {
          parts.of[i / kWide][i % kWide].clear();
        }
        parts.template add<kKnown>(rows, codes, dwords, reading);
        CPUACCEL_UNROLL
        for (int i = 0; i < kRows * kWide; ++i) {
          auto& sum = sums[i / kWide][i % kWide];
          sum = D::add(sum, parts.of[i / kWide][i % kWide].as_ints());
        }
      };
      for (; dwords >= kBlock; dwords -= kBlock) {
        add_block.template operator()<kBlock>();
      }
      if (dwords > 0) {
        add_block.template operator()<0>();
      }
    }
  }

  template <bool kZeros>
  static void run(const QgemmWqTile& t, int64_t first) {
    const WqLayout& layout = *t.layout;
    const int64_t dwords = (t.format->group + kRun - 1) / kRun;
    const DataType type = t.format->scales;
    const PanelReading reading{.prefetches = t.prefetches};
    for (int64_t g = 0; g < layout.groups; ++g) {
      const std::byte* of_group = t.panel + g * layout.group_bytes();
      const std::byte* scales = of_group + layout.code_bytes;
      const int32_t* rows = t.rows + g * dwords * D::template kRowDwords<kBits> * kWidth + first;
      const int64_t number = g * kWidth + first;
      for (int64_t v = 0; v < V::kVectors; v += kWide) {
        Sums sums;
        add_group(sums, t.starts + number, rows, of_group + v * 4 * V::kLanes, dwords, reading);
        CPUACCEL_UNROLL
        for (int j = 0; j < kWide; ++j) {
          const int64_t column = (v + j) * V::kLanes;
          const auto scale = V::load_scales(scales, column, type);
          auto off = scale;
          if constexpr (kZeros) {
            const auto zeros = V::load_integers(scales + layout.scale_bytes + column);
            off = V::add(zeros, V::set1(kBits == 4 ? -8.0f : 0.0f));
          }
          CPUACCEL_UNROLL
          for (int i = 0; i < kRows; ++i) {
            float* to = t.sums + (first + i) * kWqColumns + column;
            auto sum = D::to_floats(sums[i][j]);
            if constexpr (kZeros) {
              sum = V::minus_product(sum, off, V::set1(t.row_sums[number + i]));
            }
            V::store(to, V::fma(scale, sum, V::load(to)));
          }
        }
      }
    }
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
