// groups.h for AVX2. Included by ISA sources only.
//
// A vector of queries holds kSide successive elements of each row: with eight rows one, with one
// row eight. A key is broadcast likewise, so all lanes are used whatever the number of rows, and
// sums over lanes are of at most kSide lanes.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/attention/groups_impl.h"
#include "kernels/float_vectors/exp_avx2.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// sum += a * b, in the register of sum.
CPUACCEL_INLINE void group_add(__m256& sum, __m256 a, __m256 b) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
}

struct GroupsAvx2 {
  using Vector = __m256;
  CPUACCEL_INLINE static Vector load(const float* src) { return _mm256_loadu_ps(src); }
  CPUACCEL_INLINE static void store(float* dst, Vector v) { _mm256_storeu_ps(dst, v); }

  // Weights of a key. The compiler loads each once.
  template <int kRows>
  struct Weights {
    const float* data;
    CPUACCEL_INLINE void multiply_add(int64_t row, Vector value, Vector& sum) const {
      group_add(sum, _mm256_broadcast_ss(data + row), value);
    }
  };

  struct F32 {
    using Element = float;
    CPUACCEL_INLINE static Vector load(const float* src) { return _mm256_loadu_ps(src); }
  };
  struct Bf16 {
    using Element = uint16_t;
    CPUACCEL_INLINE static Vector load(const uint16_t* src) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    }
  };
  struct F16 {
    using Element = uint16_t;
    CPUACCEL_INLINE static Vector load(const uint16_t* src) {
      return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
    }
  };
  struct S8 {
    using Element = int8_t;
    CPUACCEL_INLINE static Vector load(const int8_t* src) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src));
      return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    }
  };
};

// Broadcasts kSide floats of a key.
template <int kSide>
CPUACCEL_INLINE __m256 group_broadcast(const float* src) {
  if constexpr (kSide == 1) {
    return _mm256_broadcast_ss(src);
  } else if constexpr (kSide == 2) {
    return _mm256_castpd_ps(_mm256_broadcast_sd(reinterpret_cast<const double*>(src)));
  } else if constexpr (kSide == 4) {
    return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(src));
  } else {
    return _mm256_loadu_ps(src);
  }
}

// The same number of bytes of pairs of bf16.
template <int kSide>
CPUACCEL_INLINE __m256i group_broadcast_pairs(const uint16_t* src) {
  return _mm256_castps_si256(group_broadcast<kSide>(reinterpret_cast<const float*>(src)));
}

// Products of eight keys.
template <int kSide, typename Element>
CPUACCEL_INLINE void group_products(const Element* const (&keys)[kGroupKeys], const float* packed,
                                    int64_t E, __m256 (&sums)[kGroupKeys]) {
  group_for<kGroupKeys>([&](auto j)
                            __attribute__((always_inline)) { sums[j] = _mm256_setzero_ps(); });
  constexpr int64_t kStep = sizeof(Element) == 4 ? kSide : 2 * kSide;
  // In memory's order, because the hardware prefetcher follows.
  const char* ahead = reinterpret_cast<const char*>(keys[0]) + kGroupAhead;
#pragma GCC unroll 2
  for (int64_t e = 0; e < E; e += kStep) {
    group_for<std::max(kSide / 2, 1)>([&](auto line) __attribute__((always_inline)) {
      __builtin_prefetch(ahead + line * kGroupLine);
    });
    ahead += kGroupKeys * 4 * kSide;
    if constexpr (sizeof(Element) == 4) {
      const __m256 query = _mm256_loadu_ps(packed);
      packed += 8;
      group_for<kGroupKeys>([&](auto j) __attribute__((always_inline)) {
        group_add(sums[j], query, group_broadcast<kSide>(keys[j] + e));
      });
    } else {
      const __m256 even = _mm256_loadu_ps(packed), odd = _mm256_loadu_ps(packed + 8);
      packed += 16;
      const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000));
      group_for<kGroupKeys>([&](auto j) __attribute__((always_inline)) {
        const __m256i pairs = group_broadcast_pairs<kSide>(keys[j] + e);
        group_add(sums[j], even, _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)));
        group_add(sums[j], odd, _mm256_castsi256_ps(_mm256_and_si256(pairs, high)));
      });
    }
  }
}

// Adds the kSide lanes of each row, and stores the scores of eight keys.
template <int kSide>
CPUACCEL_INLINE void store_group_sums(const __m256 (&sums)[kGroupKeys], float* dst) {
  if constexpr (kSide == 1) {
    group_for<kGroupKeys>(
        [&](auto j) __attribute__((always_inline)) { _mm256_storeu_ps(dst + j * 8, sums[j]); });
  } else if constexpr (kSide == 2) {
    group_for<kGroupKeys / 2>([&](auto j_of) __attribute__((always_inline)) {
      constexpr int j = 2 * j_of;
      const __m256 rows = _mm256_hadd_ps(sums[j], sums[j + 1]);
      const __m256d keys = _mm256_castps_pd(rows);
      _mm256_storeu_ps(dst + j * 4, _mm256_castpd_ps(_mm256_permute4x64_pd(keys, 0b11011000)));
    });
  } else {
    group_for<kGroupKeys / 4>([&](auto j_of) __attribute__((always_inline)) {
      constexpr int j = 4 * j_of;
      const __m256 rows = _mm256_hadd_ps(_mm256_hadd_ps(sums[j], sums[j + 1]),
                                         _mm256_hadd_ps(sums[j + 2], sums[j + 3]));
      const __m128 low = _mm256_castps256_ps128(rows), high = _mm256_extractf128_ps(rows, 1);
      if constexpr (kSide == 8) {
        _mm_storeu_ps(dst + j, _mm_add_ps(low, high));
      } else {
        _mm_storeu_ps(dst + j * 2, _mm_unpacklo_ps(low, high));
        _mm_storeu_ps(dst + j * 2 + 4, _mm_unpackhi_ps(low, high));
      }
    });
  }
}

template <int kSide, typename Element>
void group_scores_of(const GroupMatrix& keys, const float* packed, float* scores) {
  constexpr int64_t kLanes = 8 / kSide;
  for (int64_t s = 0; s < keys.rows; s += kGroupKeys) {
    const Element* of[kGroupKeys];
    group_keys(keys, s, of);
    __m256 sums[kGroupKeys];
    group_products<kSide>(of, packed, keys.E, sums);
    store_group_sums<kSide>(sums, scores + s * kLanes);
  }
  hide_group_tail(keys.rows, kLanes, scores);
}

// Keys of int8 by queries of 16 bits. Two products in 32 bits are added by one instruction, so each
// takes half the time of an f32 product.
constexpr int64_t kGroupMostBytes = 512;  // E: its sums fit into 32 bits

template <int kSide>
void group_scores_of_bytes(const GroupMatrix& keys, const float* packed, float* scores) {
  constexpr int64_t kLanes = 8 / kSide;
  const auto* const data = static_cast<const int8_t*>(keys.data);
  const int64_t E = keys.E;
  const __m256 scale = _mm256_loadu_ps(packed);
  const auto* const queries = reinterpret_cast<const int16_t*>(packed + 8);
  alignas(32) int16_t wide[kGroupKeys * kGroupMostBytes];
  for (int64_t s = 0; s < keys.rows; s += kGroupKeys) {
    for (int64_t j = 0; j < kGroupKeys; ++j) {
      const int8_t* const key = data + std::min(s + j, keys.rows - 1) * keys.row_stride;
      _mm_prefetch(reinterpret_cast<const char*>(key) + kGroupAhead, _MM_HINT_T0);
      for (int64_t e = 0; e < E; e += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(key + e));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(wide + j * E + e),
                            _mm256_cvtepi8_epi16(bytes));
      }
    }
    __m256i sums[kGroupKeys];
    group_for<kGroupKeys>([&](auto j)
                              __attribute__((always_inline)) { sums[j] = _mm256_setzero_si256(); });
    const int16_t* query = queries;
#pragma GCC unroll 2
    for (int64_t e = 0; e < E; e += 2 * kSide, query += 16) {
      const __m256i of = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query));
      group_for<kGroupKeys>([&](auto j) __attribute__((always_inline)) {
        const auto* key = reinterpret_cast<const uint16_t*>(wide + j * E + e);
        const __m256i products = _mm256_madd_epi16(of, group_broadcast_pairs<kSide>(key));
        sums[j] = _mm256_add_epi32(sums[j], products);
      });
    }
    __m256 scaled[kGroupKeys];
    group_for<kGroupKeys>([&](auto j) __attribute__((always_inline)) {
      scaled[j] = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[j]), scale);
    });
    store_group_sums<kSide>(scaled, scores + s * kLanes);
  }
  hide_group_tail(keys.rows, kLanes, scores);
}

template <int kSide>
void group_scores_by_type(const GroupMatrix& keys, const float* packed, float* scores) {
  return keys.type == DataType::f32    ? group_scores_of<kSide, float>(keys, packed, scores)
         : keys.type == DataType::bf16 ? group_scores_of<kSide, uint16_t>(keys, packed, scores)
                                       : group_scores_of_bytes<kSide>(keys, packed, scores);
}

inline void group_scores(const GroupMatrix& keys, const float* packed, int64_t lanes,
                         float* scores) {
  with_group_lanes(lanes, [&](auto of) { group_scores_by_type<8 / of>(keys, packed, scores); });
}

inline bool group_takes(DataType type, int64_t E) {
  return type == DataType::f32 || type == DataType::bf16 ||
         (type == DataType::s8 && E <= kGroupMostBytes);
}

// A row of queries as numbers of 16 bits, whose pairs lie 16 numbers apart. Returns their scale.
inline float group_query_of_bytes(const float* query, int64_t E, int64_t side, float scale,
                                  int16_t* to) {
  const GroupNumbers numbers(query, E, 32767.0f);
  for (int64_t e = 0; e < E; e += 2 * side, to += 16) {
    for (int64_t i = 0; i < 2 * side; ++i) {
      to[i] = numbers.round(query[e + i]);
    }
  }
  return numbers.unit * scale;
}

inline void group_query(const float* query, int64_t stride, int64_t rows, int64_t lanes, int64_t E,
                        float scale, DataType type, float* packed) {
  const int64_t side = 8 / lanes;
  if (type == DataType::s8) {
    std::fill_n(packed, 8, 0.0f);
    auto* const numbers = reinterpret_cast<int16_t*>(packed + 8);
    std::fill_n(numbers, 8 / side * E, int16_t{0});
    for (int64_t r = 0; r < rows; ++r) {
      const float of =
          group_query_of_bytes(query + r * stride, E, side, scale, numbers + r * side * 2);
      std::fill_n(packed + r * side, side, of);
    }
    return;
  }
  pack_group(query, stride, rows, lanes, E, scale, side, type == DataType::bf16 ? 2 : 1, packed);
}

template <typename E>
void group_widen_of(const GroupMatrix& src, float* dst) {
  using Element = typename E::Element;
  const auto* from = static_cast<const Element*>(src.data);
  for (int64_t i = 0; i < src.rows; ++i, from += src.row_stride) {
    for (int64_t e = 0; e < src.E; e += 8) {
      if (e * static_cast<int64_t>(sizeof(Element)) % kGroupLine == 0) {
        _mm_prefetch(reinterpret_cast<const char*>(from + e) + kGroupAhead, _MM_HINT_T0);
      }
      _mm256_storeu_ps(dst, E::load(from + e));
      dst += 8;
    }
  }
}

inline void group_widen(const GroupMatrix& src, float* dst) {
  return src.type == DataType::s8 ? group_widen_of<GroupsAvx2::S8>(src, dst)
                                  : group_widen_of<GroupsAvx2::F16>(src, dst);
}

inline constexpr AttentionGroups kGroupsAvx2{
    group_takes,
    group_query,
    group_scores,
    group_multiply,
    group_softmax<ExpFloats8>,
    group_values<GroupsAvx2>,
    group_widen,
};

}  // namespace
}  // namespace cpuaccel::kernels
