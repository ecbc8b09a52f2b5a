// What the loops of groups.h have in common on all ISAs. Included by ISA sources.
//
// G is an ISA's class. It has vectors of eight floats with load and store; Weights of a key, which
// multiply such vectors; and classes F32, Bf16, F16 and S8, which load eight elements as one.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/attention/groups.h"
#include "kernels/float_vectors/exp.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kGroupAhead = 4096;  // bytes that are prefetched ahead
constexpr int64_t kGroupLine = 64;

// Calls body(0), ..., body(kCount - 1). Arrays that are indexed by these constants stay in
// registers; loops with a pragma are unrolled too late for that.
template <int... kI, typename Body>
CPUACCEL_INLINE void group_for(std::integer_sequence<int, kI...> /*numbers*/, const Body& body) {
  (body(std::integral_constant<int, kI>{}), ...);
}
template <int kCount, typename Body>
CPUACCEL_INLINE void group_for(const Body& body) {
  group_for(std::make_integer_sequence<int, kCount>(), body);
}

// Calls body(lanes), with a constant.
template <typename Body>
CPUACCEL_INLINE void with_group_lanes(int64_t lanes, const Body& body) {
  switch (lanes) {
    case 1:
      return body(std::integral_constant<int, 1>{});
    case 2:
      return body(std::integral_constant<int, 2>{});
    case 4:
      return body(std::integral_constant<int, 4>{});
    default:
      return body(std::integral_constant<int, 8>{});
  }
}

// Successive keys. Those behind the last are the last again.
template <typename Element, int kKeys>
CPUACCEL_INLINE void group_keys(const GroupMatrix& keys, int64_t s, const Element* (&of)[kKeys]) {
  const auto* const data = static_cast<const Element*>(keys.data);
  group_for<kKeys>([&](auto j) __attribute__((always_inline)) {
    of[j] = data + std::min(s + j, keys.rows - 1) * keys.row_stride;
  });
}

// Masks the keys behind the last.
inline void hide_group_tail(int64_t keys, int64_t lanes, float* scores) {
  const int64_t end = (keys + kGroupKeys - 1) / kGroupKeys * kGroupKeys;
  std::fill(scores + keys * lanes, scores + end * lanes, -std::numeric_limits<float>::infinity());
}

// packed = scale * query: `side` successive elements of each row. With `apart` 2 they are even
// elements, and then odd ones.
inline void pack_group(const float* query, int64_t stride, int64_t rows, int64_t lanes, int64_t E,
                       float scale, int64_t side, int64_t apart, float* packed) {
  const int64_t width = lanes * side;
  if (rows < lanes) {
    std::fill_n(packed, lanes * E, 0.0f);
  }
  for (int64_t r = 0; r < rows; ++r, query += stride) {
    float* to = packed + r * side;
    const float* from = query;
    for (int64_t e = 0; e < E; e += side * apart, from += side * apart, to += width * apart) {
      for (int64_t i = 0; i < apart; ++i) {
        for (int64_t j = 0; j < side; ++j) {
          to[i * width + j] = scale * from[j * apart + i];
        }
      }
    }
  }
}

// A row of queries as numbers of 16 bits, up to `most`.
struct GroupNumbers {
  float most, inverse = 0.0f;
  float unit;  // what the number 1 stands for; NaN if there is a NaN or an infinity

  GroupNumbers(const float* query, int64_t E, float highest) : most(highest) {
    float largest = 0.0f, all = 0.0f;
    for (int64_t e = 0; e < E; ++e) {
      const float x = std::fabs(query[e]);
      largest = std::max(largest, x);
      all += x * 0.0f;  // NaN if there is a NaN or an infinity
    }
    const bool finite = all == 0.0f;
    const bool divides = largest > most * std::numeric_limits<float>::min();
    inverse = finite && divides ? most / largest : 0.0f;
    unit = finite ? largest / most : all;
  }

  CPUACCEL_INLINE int16_t round(float of) const {
    const float x = inverse == 0.0f ? 0.0f : of * inverse;
    return static_cast<int16_t>(std::nearbyint(std::clamp(x, -most, most)));
  }
};

template <int kLanes>
void multiply_group(float* scores, const float* factors, int64_t keys) {
  for (int64_t s = 0; s < keys; ++s) {
    group_for<kLanes>([&](auto r)
                          __attribute__((always_inline)) { scores[s * kLanes + r] *= factors[s]; });
  }
}

inline void group_multiply(float* scores, const float* factors, int64_t keys, int64_t lanes) {
  with_group_lanes(lanes, [&](auto of) { multiply_group<of>(scores, factors, keys); });
}

// The largest, or the sum, of the lanes that belong to one row.
template <typename Join>
CPUACCEL_INLINE void join_group_lanes(float (&all)[8], int64_t lanes, const Join& join,
                                      float* dst) {
  for (int64_t i = lanes; i < 8; ++i) {
    all[i % lanes] = join(all[i % lanes], all[i]);
  }
  std::copy_n(all, lanes, dst);
}

template <typename V>
void group_softmax(float* scores, int64_t keys, int64_t lanes, float* max, float* sum) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  constexpr int kVectors = 8 / V::kLanes;
  using Vector = typename V::Vector;
  const int64_t count = keys * lanes;  // a multiple of 8
  Vector largest[2 * kVectors];
  group_for<2 * kVectors>([&](auto j)
                              __attribute__((always_inline)) { largest[j] = V::set1(kLowest); });
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    group_for<2 * kVectors>([&](auto j) __attribute__((always_inline)) {
      largest[j] = V::max(V::load(scores + i + j * V::kLanes), largest[j]);
    });
  }
  float all[8], from[8];
  group_for<kVectors>([&](auto j) __attribute__((always_inline)) {
    if (i < count) {
      largest[j] = V::max(V::load(scores + i + j * V::kLanes), largest[j]);
    }
    V::store(all + j * V::kLanes, V::max(largest[j], largest[kVectors + j]));
  });
  join_group_lanes(all, lanes, [](float a, float b) { return std::max(a, b); }, max);
  for (int64_t lane = 0; lane < 8; ++lane) {
    const float of = max[lane % lanes];
    from[lane] = of == kLowest ? 0.0f : of;  // all keys are masked
  }
  Vector highest[kVectors], total[kVectors];
  group_for<kVectors>([&](auto j) __attribute__((always_inline)) {
    highest[j] = V::load(from + j * V::kLanes);
    total[j] = V::set1(0.0f);
  });
  for (i = 0; i < count; i += 8) {
    group_for<kVectors>([&](auto j) __attribute__((always_inline)) {
      float* const at = scores + i + j * V::kLanes;
      const Vector weights = weight_below<V>(V::subtract(highest[j], V::load(at)));
      V::store(at, weights);
      total[j] = V::add(total[j], weights);
    });
  }
  group_for<kVectors>(
      [&](auto j) __attribute__((always_inline)) { V::store(all + j * V::kLanes, total[j]); });
  join_group_lanes(all, lanes, [](float a, float b) { return a + b; }, sum);
}

// kVectors vectors of elements of kRows rows, over all keys of the block.
template <typename G, typename E, int kRows, int kVectors>
CPUACCEL_INLINE void add_group_values(const GroupMatrix& values, const float* weights,
                                      int64_t lanes, int64_t e, float* dst, int64_t stride) {
  using Vector = typename G::Vector;
  Vector sums[kRows][kVectors];
  group_for<kRows>([&](auto r) __attribute__((always_inline)) {
    group_for<kVectors>([&](auto j) __attribute__((always_inline)) {
      sums[r][j] = G::load(dst + r * stride + e + j * 8);
    });
  });
  using Element = typename E::Element;
  const auto* from = static_cast<const Element*>(values.data) + e;
  constexpr int64_t kBytes = kVectors * 8 * sizeof(Element);
  // Each of the passes over the block asks for its share of the next block.
  const char* ahead = static_cast<const char*>(values.data) +
                      values.rows * (values.row_stride + e) * static_cast<int64_t>(sizeof(Element));
  for (int64_t s = 0; s < values.rows; ++s) {
    group_for<std::max<int>(kBytes / kGroupLine, 1)>([&](auto line) __attribute__((always_inline)) {
      __builtin_prefetch(ahead + line * kGroupLine);
    });
    ahead += kBytes;
    const typename G::template Weights<kRows> of{weights};
    if constexpr (kVectors > kRows) {
      group_for<kVectors>([&](auto j) __attribute__((always_inline)) {
        const Vector value = E::load(from + j * 8);
        group_for<kRows>(
            [&](auto r) __attribute__((always_inline)) { of.multiply_add(r, value, sums[r][j]); });
      });
    } else {
      Vector value[kVectors];
      group_for<kVectors>([&](auto j)
                              __attribute__((always_inline)) { value[j] = E::load(from + j * 8); });
      group_for<kRows>([&](auto r) __attribute__((always_inline)) {
        group_for<kVectors>([&](auto j) __attribute__((always_inline)) {
          of.multiply_add(r, value[j], sums[r][j]);
        });
      });
    }
    from += values.row_stride;
    weights += lanes;
  }
  group_for<kRows>([&](auto r) __attribute__((always_inline)) {
    group_for<kVectors>([&](auto j) __attribute__((always_inline)) {
      G::store(dst + r * stride + e + j * 8, sums[r][j]);
    });
  });
}

template <typename G, typename E, int kRows>
void group_values_of(const GroupMatrix& values, const float* weights, int64_t lanes, float* dst,
                     int64_t stride) {
  // At least eight sums, to hide the latency, and at most twelve.
  constexpr int kVectors = kRows >= 7 ? 1 : kRows >= 4 ? 2 : kRows == 3 ? 4 : kRows == 2 ? 4 : 8;
  int64_t e = 0;
  for (; e + kVectors * 8 <= values.E; e += kVectors * 8) {
    add_group_values<G, E, kRows, kVectors>(values, weights, lanes, e, dst, stride);
  }
  if constexpr (kVectors > 1) {
    for (; e < values.E; e += 8) {
      add_group_values<G, E, kRows, 1>(values, weights, lanes, e, dst, stride);
    }
  }
}

template <typename G, typename E, int... kRows>
void group_values_by_rows(const GroupMatrix& values, const float* weights, int64_t lanes,
                          int64_t rows, float* dst, int64_t stride,
                          std::integer_sequence<int, kRows...> /*numbers*/) {
  constexpr auto kOfRows = std::array{group_values_of<G, E, kRows + 1>...};
  kOfRows[static_cast<size_t>(rows - 1)](values, weights, lanes, dst, stride);
}

// Calls body(E{}), with G's class of elements of this type.
template <typename G, typename Body>
CPUACCEL_INLINE void with_group_type(DataType type, const Body& body) {
  switch (type) {
    case DataType::f32:
      return body(typename G::F32{});
    case DataType::bf16:
      return body(typename G::Bf16{});
    case DataType::f16:
      return body(typename G::F16{});
    default:
      return body(typename G::S8{});
  }
}

template <typename G>
void group_values(const GroupMatrix& values, const float* weights, int64_t lanes, int64_t rows,
                  float* dst, int64_t stride) {
  with_group_type<G>(values.type, [&]<typename E>(E /*element*/) {
    group_values_by_rows<G, E>(values, weights, lanes, rows, dst, stride,
                               std::make_integer_sequence<int, kGroupRows>());
  });
}

}  // namespace
}  // namespace cpuaccel::kernels
