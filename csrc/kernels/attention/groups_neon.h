// groups.h for NEON. Included by ISA sources only.
//
// With four or eight rows, a vector of queries holds one element of four rows, and is multiplied by
// one lane of a key. With one or two, it holds four elements of a row, as a vector of a key does.
// Keys of all types become f32 in registers, so nothing is rounded. Multiply-adds of 16 bits have
// half the rate of those of f32.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/attention/groups_impl.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct GroupsNeon {
  struct Vector {
    float32x4_t low, high;
  };
  CPUACCEL_INLINE static Vector load(const float* src) {
    return {vld1q_f32(src), vld1q_f32(src + 4)};
  }
  CPUACCEL_INLINE static void store(float* dst, const Vector& v) {
    vst1q_f32(dst, v.low);
    vst1q_f32(dst + 4, v.high);
  }

  // Weights of a key, of four rows in each vector.
  template <int kRows>
  struct Weights {
    float32x4_t rows[kRows > 4 ? 2 : 1];

    CPUACCEL_INLINE explicit Weights(const float* src) {
      if constexpr (kRows == 1) {
        rows[0] = vdupq_n_f32(*src);
      } else if constexpr (kRows == 2) {
        rows[0] = vcombine_f32(vld1_f32(src), vdup_n_f32(0.0f));
      } else {
        rows[0] = vld1q_f32(src);
      }
      if constexpr (kRows > 4) {
        rows[1] = vld1q_f32(src + 4);
      }
    }
    template <typename Row>
    CPUACCEL_INLINE void multiply_add(Row row, const Vector& value, Vector& sum) const {
      constexpr int kRow = row;
      sum.low = vfmaq_laneq_f32(sum.low, value.low, rows[kRow / 4], kRow % 4);
      sum.high = vfmaq_laneq_f32(sum.high, value.high, rows[kRow / 4], kRow % 4);
    }
  };

  // Elements, of which `four` loads four and `load` eight.
  struct F32 {
    using Element = float;
    CPUACCEL_INLINE static float32x4_t four(const float* src) { return vld1q_f32(src); }
    CPUACCEL_INLINE static Vector load(const float* src) { return GroupsNeon::load(src); }
  };
  // Zeros are put below each number, which any unit does. A shift takes one of two on Neoverse V1.
  struct Bf16 {
    using Element = uint16_t;
    CPUACCEL_INLINE static float32x4_t four(const uint16_t* src) {
      const uint16x8_t halves = vcombine_u16(vld1_u16(src), vdup_n_u16(0));
      return vreinterpretq_f32_u16(vzip1q_u16(vdupq_n_u16(0), halves));
    }
    CPUACCEL_INLINE static Vector load(const uint16_t* src) {
      const uint16x8_t halves = vld1q_u16(src), zeros = vdupq_n_u16(0);
      return {vreinterpretq_f32_u16(vzip1q_u16(zeros, halves)),
              vreinterpretq_f32_u16(vzip2q_u16(zeros, halves))};
    }
  };
  struct F16 {
    using Element = uint16_t;
    CPUACCEL_INLINE static float32x4_t four(const uint16_t* src) {
      return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(src)));
    }
    CPUACCEL_INLINE static Vector load(const uint16_t* src) {
      const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(src));
      return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
    }
  };
  // A byte is added to the bits of 1.5 * 2^23, which adds as much to the number. A conversion has a
  // quarter of the rate of a subtraction.
  struct S8 {
    using Element = int8_t;
    CPUACCEL_INLINE static int32x4_t bits() { return vdupq_n_s32(0x4b400000); }
    CPUACCEL_INLINE static float32x4_t number(int32x4_t sum) {
      return vsubq_f32(vreinterpretq_f32_s32(sum), vreinterpretq_f32_s32(bits()));
    }
    CPUACCEL_INLINE static float32x4_t four(const int8_t* src) {
      uint32_t bytes;
      std::memcpy(&bytes, src, sizeof(bytes));
      return number(vaddw_s16(bits(), vget_low_s16(vmovl_s8(vcreate_s8(bytes)))));
    }
    CPUACCEL_INLINE static Vector load(const int8_t* src) {
      const int16x8_t halves = vmovl_s8(vld1_s8(src));
      return {number(vaddw_s16(bits(), vget_low_s16(halves))),
              number(vaddw_high_s16(bits(), halves))};
    }
  };
};

// Successive elements of a key.
template <typename E, int kVectors>
CPUACCEL_INLINE void load_group_key(const typename E::Element* src, float32x4_t (&key)[kVectors]) {
  if constexpr (kVectors == 1) {
    key[0] = E::four(src);
  } else {
    const auto [low, high] = E::load(src);
    key[0] = low;
    key[1] = high;
  }
}

template <typename E, int kLanes>
struct GroupProductsNeon;

// A vector of queries is one element of four rows. Sums are of two halves of the rows, or of even
// and odd elements.
template <typename E, int kLanes>
  requires(kLanes >= 4)
struct GroupProductsNeon<E, kLanes> {
  static constexpr int64_t kStep = 32 / kLanes;  // elements
  float32x4_t sums[kGroupKeys][2];

  CPUACCEL_INLINE void add(const typename E::Element* const (&keys)[kGroupKeys], int64_t e,
                           const float* packed) {
    float32x4_t query[8];
    group_for<8>([&](auto i)
                     __attribute__((always_inline)) { query[i] = vld1q_f32(packed + i * 4); });
    group_for<kGroupKeys>([&](auto j) __attribute__((always_inline)) {
      float32x4_t key[kStep / 4];
      load_group_key<E>(keys[j] + e, key);
      group_for<8>([&](auto i) __attribute__((always_inline)) {
        constexpr int kElement = i * 4 / kLanes;
        sums[j][i % 2] = vfmaq_laneq_f32(sums[j][i % 2], query[i], key[kElement / 4], kElement % 4);
      });
    });
  }

  CPUACCEL_INLINE void store(float* scores) const {
    group_for<kGroupKeys>([&](auto j) __attribute__((always_inline)) {
      if constexpr (kLanes == 8) {
        vst1q_f32(scores + j * 8, sums[j][0]);
        vst1q_f32(scores + j * 8 + 4, sums[j][1]);
      } else {
        vst1q_f32(scores + j * 4, vaddq_f32(sums[j][0], sums[j][1]));
      }
    });
  }
};

// A vector of queries is four elements of one row. Sums are of each fourth element.
template <typename E, int kLanes>
  requires(kLanes <= 2)
struct GroupProductsNeon<E, kLanes> {
  static constexpr int64_t kStep = 8;
  float32x4_t sums[kGroupKeys][kLanes];

  CPUACCEL_INLINE void add(const typename E::Element* const (&keys)[kGroupKeys], int64_t e,
                           const float* packed) {
    float32x4_t query[2][kLanes];
    group_for<2 * kLanes>([&](auto i) __attribute__((always_inline)) {
      query[i / kLanes][i % kLanes] = vld1q_f32(packed + i * 4);
    });
    group_for<kGroupKeys>([&](auto j) __attribute__((always_inline)) {
      float32x4_t key[2];
      load_group_key<E>(keys[j] + e, key);
      group_for<2 * kLanes>([&](auto i) __attribute__((always_inline)) {
        constexpr int r = i % kLanes;
        sums[j][r] = vfmaq_f32(sums[j][r], query[i / kLanes][r], key[i / kLanes]);
      });
    });
  }

  CPUACCEL_INLINE void store(float* scores) const {
    const auto sum = [&](int i) { return sums[i / kLanes][i % kLanes]; };
    group_for<kGroupKeys * kLanes / 4>([&](auto i_of) __attribute__((always_inline)) {
      constexpr int i = 4 * i_of;
      vst1q_f32(scores + i,
                vpaddq_f32(vpaddq_f32(sum(i), sum(i + 1)), vpaddq_f32(sum(i + 2), sum(i + 3))));
    });
  }
};

// Out of line, so that tools/arm_peak.py finds each by its name.
template <typename E, int kLanes>
[[gnu::noinline]] void group_scores_of(const GroupMatrix& keys, const float* packed,
                                       float* scores) {
  using Element = typename E::Element;
  using Products = GroupProductsNeon<E, kLanes>;
  constexpr int64_t kBytes = kGroupKeys * Products::kStep * sizeof(Element);  // of a step
  for (int64_t s = 0; s < keys.rows; s += kGroupKeys) {
    const Element* of[kGroupKeys];
    group_keys(keys, s, of);
    Products products;
    group_for<kGroupKeys>([&](auto j) __attribute__((always_inline)) {
      for (float32x4_t& sum : products.sums[j]) {
        sum = vdupq_n_f32(0.0f);
      }
    });
    // In memory's order, because the hardware prefetcher follows.
    const char* ahead = reinterpret_cast<const char*>(of[0]) + kGroupAhead;
    for (int64_t e = 0; e < keys.E; e += Products::kStep, ahead += kBytes) {
      group_for<std::max<int>(kBytes / kGroupLine, 1)>(
          [&](auto line)
              __attribute__((always_inline)) { __builtin_prefetch(ahead + line * kGroupLine); });
      products.add(of, e, packed + e * kLanes);
    }
    products.store(scores + s * kLanes);
  }
  hide_group_tail(keys.rows, kLanes, scores);
}

inline void group_scores(const GroupMatrix& keys, const float* packed, int64_t lanes,
                         float* scores) {
  with_group_lanes(lanes, [&](auto of) {
    with_group_type<GroupsNeon>(keys.type, [&]<typename E>(E /*element*/) {
      group_scores_of<E, of>(keys, packed, scores);
    });
  });
}

inline bool group_takes(DataType /*type*/, int64_t /*E*/) { return true; }

inline void group_query(const float* query, int64_t stride, int64_t rows, int64_t lanes, int64_t E,
                        float scale, DataType /*type*/, float* packed) {
  pack_group(query, stride, rows, lanes, E, scale, lanes >= 4 ? 1 : 4, 1, packed);
}

// Softmax is computed on vectors V.
template <typename V>
inline constexpr AttentionGroups kGroupsNeon{
    group_takes,    group_query,      group_scores,
    group_multiply, group_softmax<V>, group_values<GroupsNeon>,
    nullptr,
};

}  // namespace
}  // namespace cpuaccel::kernels
