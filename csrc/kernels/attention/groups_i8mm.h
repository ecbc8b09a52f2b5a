// groups.h for Arm's cores with SMMLA. Included by ISA sources only.
//
// Keys of int8 are multiplied by queries of 16 bits, which are two numbers of 8 bits: query =
// (256 * high + low) * unit. SMMLA adds the products of eight elements of two keys by two such
// rows. Other keys, and values, are those of groups_neon.h.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstdint>

#include "kernels/attention/groups_impl.h"
#include "kernels/attention/groups_neon.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Two rows of eight bytes.
CPUACCEL_INLINE int8x16_t byte_rows(int64x2_t rows) { return vreinterpretq_s8_s64(rows); }

// The sums of kLanes rows. A vector of queries holds the high or the low bytes of two rows, and
// with one row both of it.
template <int kLanes>
struct GroupByteSums {
  static constexpr int kKeys = kLanes == 8 ? 4 : 8;  // 16 vectors of sums at most
  int32x4_t sums[kKeys / 2][kLanes];                 // of two keys each

  // Sixteen elements.
  CPUACCEL_INLINE void add(const int8_t* const (&keys)[kKeys], int64_t e, const int8_t* query) {
    int8x16_t pairs[kKeys / 2][2];
    group_for<kKeys / 2>([&](auto i) __attribute__((always_inline)) {
      const int64x2_t first = vreinterpretq_s64_s8(vld1q_s8(keys[2 * i] + e));
      const int64x2_t second = vreinterpretq_s64_s8(vld1q_s8(keys[2 * i + 1] + e));
      pairs[i][0] = byte_rows(vzip1q_s64(first, second));
      pairs[i][1] = byte_rows(vzip2q_s64(first, second));
    });
    group_for<2 * kLanes>([&](auto v) __attribute__((always_inline)) {
      const int8x16_t of = vld1q_s8(query + v * 16);
      group_for<kKeys / 2>([&](auto i) __attribute__((always_inline)) {
        sums[i][v % kLanes] = vmmlaq_s32(sums[i][v % kLanes], pairs[i][v / kLanes], of);
      });
    });
  }

  // Scores of keys 2 * i and 2 * i + 1 by two rows: each key's are successive.
  CPUACCEL_INLINE float32x4_t pair(int i, int rows, const float* scales) const {
    const float32x4_t high = vcvtq_f32_s32(sums[i][2 * rows]);
    const float32x4_t low = vcvtq_f32_s32(sums[i][2 * rows + 1]);
    const float32x2_t of = vld1_f32(scales + 2 * rows);
    return vmulq_f32(vfmaq_n_f32(low, high, 256.0f), vcombine_f32(of, of));
  }

  CPUACCEL_INLINE void store(const float* scales, float* scores) const {
    if constexpr (kLanes == 1) {
      const float factors[4] = {256.0f * *scales, *scales, 256.0f * *scales, *scales};
      const auto parts = [&](int i) __attribute__((always_inline)) {
        return vmulq_f32(vcvtq_f32_s32(sums[i][0]), vld1q_f32(factors));
      };
      vst1q_f32(scores, vpaddq_f32(parts(0), parts(1)));
      vst1q_f32(scores + 4, vpaddq_f32(parts(2), parts(3)));
    } else if constexpr (kLanes == 2) {
      group_for<kKeys / 2>([&](auto i) __attribute__((always_inline)) {
        vst1q_f32(scores + i * 4, pair(i, 0, scales));
      });
    } else {
      group_for<kKeys / 2>([&](auto i) __attribute__((always_inline)) {
        group_for<kLanes / 4>([&](auto four) __attribute__((always_inline)) {
          const float32x4_t a = pair(i, 2 * four, scales), b = pair(i, 2 * four + 1, scales);
          float* const to = scores + 2 * i * kLanes + 4 * four;
          vst1q_f32(to, vcombine_f32(vget_low_f32(a), vget_low_f32(b)));
          vst1q_f32(to + kLanes, vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
        });
      });
    }
  }
};

// Out of line, so that tools/arm_peak.py finds each by its name.
template <int kLanes>
[[gnu::noinline]] void group_scores_of_bytes(const GroupMatrix& keys, const float* packed,
                                             float* scores) {
  using Sums = GroupByteSums<kLanes>;
  constexpr int64_t kBytes = Sums::kKeys * 16;  // of a step
  const auto* const query = reinterpret_cast<const int8_t*>(packed + 8);
  for (int64_t s = 0; s < keys.rows; s += Sums::kKeys) {
    const int8_t* of[Sums::kKeys];
    group_keys(keys, s, of);
    Sums sums;
    group_for<Sums::kKeys / 2>([&](auto i) __attribute__((always_inline)) {
      group_for<kLanes>([&](auto v)
                            __attribute__((always_inline)) { sums.sums[i][v] = vdupq_n_s32(0); });
    });
    const char* ahead = reinterpret_cast<const char*>(of[0]) + kGroupAhead;
    for (int64_t e = 0; e < keys.E; e += 16, ahead += kBytes) {
      group_for<kBytes / kGroupLine>([&](auto line) __attribute__((always_inline)) {
        __builtin_prefetch(ahead + line * kGroupLine);
      });
      sums.add(of, e, query + e * 2 * kLanes);
    }
    sums.store(packed, scores + s * kLanes);
  }
  hide_group_tail(keys.rows, kLanes, scores);
}

inline void group_scores_i8mm(const GroupMatrix& keys, const float* packed, int64_t lanes,
                              float* scores) {
  if (keys.type != DataType::s8) {
    return group_scores(keys, packed, lanes, scores);
  }
  with_group_lanes(lanes, [&](auto of) { group_scores_of_bytes<of>(keys, packed, scores); });
}

inline void group_query_i8mm(const float* query, int64_t stride, int64_t rows, int64_t lanes,
                             int64_t E, float scale, DataType type, float* packed) {
  if (type != DataType::s8) {
    return group_query(query, stride, rows, lanes, E, scale, type, packed);
  }
  std::fill_n(packed, 8, 0.0f);
  auto* const bytes = reinterpret_cast<int8_t*>(packed + 8);
  std::fill_n(bytes, 2 * lanes * E, int8_t{0});
  const int64_t apart = lanes == 1 ? 8 : 16;  // from high to low bytes
  for (int64_t r = 0; r < rows; ++r, query += stride) {
    const GroupNumbers numbers(query, E, 127.0f * 256.0f + 127.0f);
    packed[r] = numbers.unit * scale;
    int8_t* to = bytes + r / 2 * 32 + r % 2 * 8;
    for (int64_t e = 0; e < E; e += 8, to += 16 * lanes) {
      for (int64_t i = 0; i < 8; ++i) {
        const int number = numbers.round(query[e + i]);
        const int high = (number + 128) >> 8;
        to[i] = static_cast<int8_t>(high);
        to[apart + i] = static_cast<int8_t>(number - 256 * high);
      }
    }
  }
}

// Softmax is computed on vectors V.
template <typename V>
inline constexpr AttentionGroups kGroupsI8mm{
    group_takes,      group_query_i8mm,         group_scores_i8mm, group_multiply,
    group_softmax<V>, group_values<GroupsNeon>, nullptr,
};

}  // namespace
}  // namespace cpuaccel::kernels
