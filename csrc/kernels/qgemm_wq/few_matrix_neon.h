// Two, four or eight rows by a panel with SMMLA, codes straight from the panel. Included by ISA
// sources.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "kernels/gemm/half_neon.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm_wq/codes_neon.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

// Two vectors of two columns, each twice, as vectors of two rows by two columns need them.
struct Spread {
  float32x4_t of[2];
  explicit Spread(float32x4_t four) {
    const float64x2_t pairs = vreinterpretq_f64_f32(four);
    of[0] = vreinterpretq_f32_f64(vdupq_laneq_f64(pairs, 0));
    of[1] = vreinterpretq_f32_f64(vdupq_laneq_f64(pairs, 1));
  }
};

CPUACCEL_INLINE float32x4_t load_integers(const std::byte* zeros) {
  uint32_t four;
  std::memcpy(&four, zeros, sizeof(four));
  const int16x8_t words = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
}

// What sums start at, group by group, so that sums of codes from 0 become those of centered codes:
// -8 times the sums of the rows' bytes. All columns use them again.
template <int kPairs>
class CenteredStarts {
 public:
  // Not `counted`: zeros.
  CenteredStarts(const QgemmWqTile& t, bool counted)
      : row_sums_(t.row_sums), factor_(counted ? -8.0f : 0.0f), once_(t.layout->groups <= kGroups) {
    for (int64_t g = 0; once_ && g < t.layout->groups; ++g) {
      set(g, g);
    }
  }

  CPUACCEL_INLINE const int32_t* at(int64_t g) {
    if (once_) [[likely]] {
      return values_ + g * 4 * kPairs;
    }
    set(g, 0);
    return values_;
  }

 private:
  static constexpr int64_t kGroups = 128;

  CPUACCEL_INLINE void set(int64_t g, int64_t place) {
    for (int64_t m = 0; m < 2 * kPairs; ++m) {
      const auto start = static_cast<int32_t>(row_sums_[g * 2 * kPairs + m] * factor_);
      vst1_s32(values_ + place * 4 * kPairs + 2 * m, vdup_n_s32(start));
    }
  }

  const float* row_sums_;
  const float factor_;
  const bool once_;
  alignas(64) int32_t values_[kGroups * 4 * kPairs];
};

// kPairs of rows by kVectors vectors of columns, from `column` on. E: the type of the scales.
template <int kBits, typename E, int kPairs, int kVectors>
struct FewMatrix {
  using Element = typename E::Element;
  int32x4_t sums[kPairs][2 * kVectors];
  float32x4_t totals[kPairs][2 * kVectors];

  template <bool kWhole>
  CPUACCEL_INLINE void step(const int8_t* rows, const std::byte* codes) {
    int8x16_t pairs[kPairs];
    CPUACCEL_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      pairs[i] = vld1q_s8(rows + 16 * i);
    }
    CPUACCEL_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Halves halves = load_codes<kBits, kWhole>(codes + 16 * v);
      const int32x4_t low = vreinterpretq_s32_s8(halves.low);
      const int32x4_t high = vreinterpretq_s32_s8(halves.high);
      const int32x4_t columns[2] = {vzip1q_s32(low, high), vzip2q_s32(low, high)};
      CPUACCEL_UNROLL
      for (int j = 0; j < 2 * kPairs; ++j) {
        asm("smmla %0.4s, %1.16b, %2.16b"
            : "+w"(sums[j % kPairs][2 * v + j / kPairs])
            : "w"(pairs[j % kPairs]), "w"(columns[j / kPairs]));
      }
    }
  }

  // kZeros, kReals: of kind `integers`, of kind `reals`.
  template <bool kZeros, bool kReals>
  CPUACCEL_INLINE void end(const std::byte* scales, const std::byte* zeros, const float* of_rows) {
    float32x4_t row_sums[kPairs];
    if constexpr (kZeros || kReals) {
      CPUACCEL_UNROLL
      for (int i = 0; i < kPairs; ++i) {
        const float32x2_t two = vld1_f32(of_rows + 2 * i);
        row_sums[i] = vcombine_f32(vdup_lane_f32(two, 0), vdup_lane_f32(two, 1));
      }
    }
    CPUACCEL_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Spread scale(E::load(reinterpret_cast<const Element*>(scales) + 4 * v));
      const Spread zero(kZeros ? load_integers(zeros + 4 * v) : vdupq_n_f32(0.0f));
      const Spread real(kReals ? E::load(reinterpret_cast<const Element*>(zeros) + 4 * v)
                               : vdupq_n_f32(0.0f));
      CPUACCEL_UNROLL
      for (int j = 0; j < 2 * kPairs; ++j) {
        const int i = j % kPairs, half = j / kPairs;
        float32x4_t sum = vcvtq_f32_s32(sums[i][2 * v + half]);
        float32x4_t& total = totals[i][2 * v + half];
        if constexpr (kZeros) {
          sum = vfmsq_f32(sum, zero.of[half], row_sums[i]);
        }
        if constexpr (kReals) {
          total = vfmaq_f32(total, real.of[half], row_sums[i]);
        }
        total = vfmaq_f32(total, scale.of[half], sum);
      }
    }
  }

  template <bool kZeros, bool kReals>
  CPUACCEL_INLINE void run(const QgemmWqTile& t, int64_t column, CenteredStarts<kPairs>& starts) {
    const WqLayout& layout = *t.layout;
    const bool half = kBits == 8 && divide_up(t.format->group, int64_t{4}) % 2 != 0;
    const int64_t steps = divide_up(t.format->group, kStep) - (half ? 1 : 0);
    const int64_t scale_at = layout.code_bytes + column * int64_t{sizeof(Element)};
    const int64_t zero_at = layout.code_bytes + layout.scale_bytes +
                            column * (kZeros ? int64_t{1} : int64_t{sizeof(Element)});
    const auto* rows = reinterpret_cast<const int8_t*>(t.rows);
    const float* of_rows = t.row_sums;
    const std::byte* group = t.panel;
    CPUACCEL_UNROLL
    for (int i = 0; i < kPairs * 2 * kVectors; ++i) {
      totals[i / (2 * kVectors)][i % (2 * kVectors)] = vdupq_n_f32(0.0f);
    }
    for (int64_t g = 0; g < layout.groups; ++g, group += layout.group_bytes()) {
      const int32_t* start = starts.at(g);
      CPUACCEL_UNROLL
      for (int i = 0; i < kPairs * 2 * kVectors; ++i) {
        sums[i / (2 * kVectors)][i % (2 * kVectors)] = vld1q_s32(start + i / (2 * kVectors) * 4);
      }
      const std::byte* codes = group + column * 4;
      // Keeps the compiler from loading several steps ahead, which would spill the sums.
      const auto fence = [&]() __attribute__((always_inline)) {
        asm volatile("" : "+r"(codes), "+r"(rows));
      };
      for (int64_t left = steps / 2; left > 0; --left) {
        step<true>(rows, codes);
        fence();
        step<true>(rows + 16 * kPairs, codes + kStepBytes<kBits>);
        rows += 2 * 16 * kPairs;
        codes += 2 * kStepBytes<kBits>;
        fence();
      }
      if (steps % 2 != 0) {
        step<true>(rows, codes);
        rows += 16 * kPairs;
        codes += kStepBytes<kBits>;
      }
      if (half) {
        step<false>(rows, codes);
        rows += 16 * kPairs;
      }
      end<kZeros, kReals>(group + scale_at, group + zero_at, of_rows);
      of_rows += 2 * kPairs;
    }
    store(t.sums + column);
  }

  CPUACCEL_INLINE void store(float* to) const {
    CPUACCEL_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      CPUACCEL_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const float64x2_t low = vreinterpretq_f64_f32(totals[i][2 * v]);
        const float64x2_t high = vreinterpretq_f64_f32(totals[i][2 * v + 1]);
        float* at = to + 2 * i * kWqColumns + 4 * v;
        vst1q_f32(at, vreinterpretq_f32_f64(vzip1q_f64(low, high)));
        vst1q_f32(at + kWqColumns, vreinterpretq_f32_f64(vzip2q_f64(low, high)));
      }
    }
  }
};

template <int kBits, typename E, int kPairs, bool kZeros, bool kReals>
void few_pairs(const QgemmWqTile& t) {
  // As many sums and totals as registers hold.
  constexpr int kVectors = 4 / kPairs;
  CenteredStarts<kPairs> starts(t, kBits == 4 && !kZeros);
  for (int64_t column = 0; column < kWqColumns; column += 4 * kVectors) {
    FewMatrix<kBits, E, kPairs, kVectors> tile;
    tile.template run<kZeros, kReals>(t, column, starts);
  }
}

template <int kBits, typename E, int kPairs>
void few_pairs_by_zeros(const QgemmWqTile& t) {
  switch (t.format->zeros) {
    case WqZeros::none:
      return few_pairs<kBits, E, kPairs, false, false>(t);
    case WqZeros::integers:
      return few_pairs<kBits, E, kPairs, true, false>(t);
    default:
      return few_pairs<kBits, E, kPairs, false, true>(t);
  }
}

template <int kBits, typename E>
void few_pairs_by_width(const QgemmWqTile& t) {
  switch (t.width) {
    case 2:
      return few_pairs_by_zeros<kBits, E, 1>(t);
    case 4:
      return few_pairs_by_zeros<kBits, E, 2>(t);
    default:
      return few_pairs_by_zeros<kBits, E, 4>(t);
  }
}

// For groups of up to kWqIntegers k.
template <int kBits>
void few_pairs_of(const QgemmWqTile& t) {
  switch (t.format->scales) {
    case DataType::f32:
      return few_pairs_by_width<kBits, F32Elements>(t);
    case DataType::bf16:
      return few_pairs_by_width<kBits, Bf16Elements>(t);
    default:
      return few_pairs_by_width<kBits, F16Elements>(t);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
