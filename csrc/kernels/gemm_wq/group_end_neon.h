// What the end of a group adds to the sums on Arm, as group_end.h says. Included by ISA sources.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/gemm/half_neon.h"
#include "kernels/gemm/unroll.h"
#include "kernels/gemm_wq/weights.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Scales, zero points and reals of a group as floats. P::spread puts a vector of four columns at
// the place where P's ends read it; P::kSpread is the number of floats that four columns become.
template <typename P>
class GroupEnd {
 public:
  // `subtracted` from the codes before.
  GroupEnd(const WqFormat& format, const WqLayout& layout, int64_t subtracted)
      : format_(format),
        layout_(layout),
        subtracted_(static_cast<float>(subtracted)),
        has_zeros_(format.center() != subtracted) {
    if (format.zeros == WqZeros::integers) {
      has_zeros_ = true;
    } else if (has_zeros_) {
      std::fill_n(zeros_, kFloats, static_cast<float>(format.center() - subtracted));
    }
  }

  // `at`: behind the codes of the group.
  CPUACCEL_INLINE void load(const std::byte* at) {
    load_floats(at, scales_);
    const std::byte* zeros = at + layout_.scale_bytes;
    if (format_.zeros == WqZeros::reals) {
      load_floats(zeros, reals_);
    } else if (format_.zeros == WqZeros::integers) {
      for (int64_t n = 0; n < kWqColumns; n += 8) {
        const int16x8_t words = vmovl_s8(vld1_s8(reinterpret_cast<const int8_t*>(zeros) + n));
        const float32x4_t by = vdupq_n_f32(subtracted_);
        spread(vsubq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(words))), by), zeros_, n);
        spread(vsubq_f32(vcvtq_f32_s32(vmovl_high_s16(words)), by), zeros_, n + 4);
      }
    }
  }

  // Calls add.operator()<has zeros, has reals>().
  template <typename Add>
  CPUACCEL_INLINE void choose(const Add& add) const {
    const bool has_reals = format_.zeros == WqZeros::reals;
    if (has_zeros_) {
      has_reals ? add.template operator()<true, true>() : add.template operator()<true, false>();
    } else {
      has_reals ? add.template operator()<false, true>() : add.template operator()<false, false>();
    }
  }
  const float* scales() const { return scales_; }
  const float* zeros() const { return zeros_; }
  const float* reals() const { return reals_; }

 private:
  static constexpr int64_t kFloats = kWqColumns / 4 * P::kSpread;

  CPUACCEL_INLINE static void spread(float32x4_t four, float* to, int64_t n) {
    P::spread(four, to + n / 4 * P::kSpread);
  }
  template <typename E>
  CPUACCEL_INLINE static void load_elements(const std::byte* from, float* to) {
    for (int64_t n = 0; n < kWqColumns; n += 4) {
      spread(E::load(reinterpret_cast<const typename E::Element*>(from) + n), to, n);
    }
  }
  CPUACCEL_INLINE void load_floats(const std::byte* from, float* to) const {
    switch (format_.scales) {
      case DataType::f32:
        return load_elements<F32Elements>(from, to);
      case DataType::bf16:
        return load_elements<Bf16Elements>(from, to);
      default:
        return load_elements<F16Elements>(from, to);
    }
  }

  const WqFormat& format_;
  const WqLayout& layout_;
  const float subtracted_;
  bool has_zeros_;
  alignas(64) float scales_[kFloats], zeros_[kFloats], reals_[kFloats];
};

// How they lie for rows of sums.
struct InRows {
  static constexpr int64_t kSpread = 4;
  CPUACCEL_INLINE static void spread(float32x4_t four, float* to) { vst1q_f32(to, four); }
};

// Adds a group's sums of the columns from `column` on to `rows` of 32 columns. row_sums are of x.
template <bool kZeros, bool kReals, int kRows, int kWide>
CPUACCEL_INLINE void end_rows(float* rows, const float32x4_t (&sums)[kRows][kWide],
                              const GroupEnd<InRows>& end, const float* row_sums, int64_t column) {
  CPUACCEL_UNROLL
  for (int j = 0; j < kWide; ++j) {
    const int64_t n = column + 4 * j;
    const float32x4_t scale = vld1q_f32(end.scales() + n);
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      float* to = rows + i * kWqColumns + n;
      float32x4_t before = vld1q_f32(to), sum = sums[i][j];
      if constexpr (kZeros) {
        sum = vfmsq_n_f32(sum, vld1q_f32(end.zeros() + n), row_sums[i]);
      }
      if constexpr (kReals) {
        before = vfmaq_n_f32(before, vld1q_f32(end.reals() + n), row_sums[i]);
      }
      vst1q_f32(to, vfmaq_f32(before, scale, sum));
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
