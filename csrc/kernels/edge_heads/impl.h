// edge_heads for any vector class V (csr/scalar.h). Included by ISA sources.
//
// If heads have kC columns, a power of two below V's lanes, a vector holds several heads: a head's
// number is repeated over its kC lanes, and sums are taken within them (csr/heads_avx2.h). If kC is
// 0, each head begins with a new vector.
#pragma once

#include "kernels/edge_heads/edge_heads.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, typename Index, bool kMasked, int kC>
struct EdgeHeads {
  using Number = typename V::Number;
  using Vector = typename V::Vector;
  static constexpr int64_t kLanes = V::kLanes;

  const EdgeHeadsCall& call;
  const int64_t H = call.H, C = call.C, K = H * C;
  const int64_t per_head = (C + kLanes - 1) / kLanes;  // vectors
  const int64_t vectors = kC > 0 ? (K + kLanes - 1) / kLanes : H * per_head;
  const typename V::Mask tail =
      V::mask(kC > 0 ? K - (vectors - 1) * kLanes : C - (per_head - 1) * kLanes);
  const typename V::Mask whole = V::mask(kLanes);
  const Index* crow = call.csr.template crow_as<Index>();
  const Index* col = call.csr.template col_as<Index>();
  const Index* perm = static_cast<const Index*>(call.perm);
  const Number* weights = static_cast<const Number*>(call.weights);
  const Number* own = static_cast<const Number*>(call.own);
  const Number* src = static_cast<const Number*>(call.src);
  const Number* att = static_cast<const Number*>(call.att);
  Number* dst = static_cast<Number*>(call.dst);
  Number* dst_att = static_cast<Number*>(call.dst_att);
  Number* dst_dot = static_cast<Number*>(call.dst_dot);
  const Vector slope = V::set1(static_cast<Number>(call.slope));

  // A vector of a row: its offset, its first head and number of heads, and the lanes that exist;
  // whether it is the first and the last vector of its head.
  struct Place {
    int64_t offset, head, heads;
    typename V::Mask mask;
    bool first, last;
  };
  CPUACCEL_INLINE Place place(int64_t number) const {
    if constexpr (kC > 0) {
      constexpr int64_t kHeads = kLanes / kC;
      const int64_t head = number * kHeads, left = H - head;
      return {number * kLanes,
              head,
              left < kHeads ? left : kHeads,
              number + 1 == vectors ? tail : whole,
              true,
              true};
    } else {
      const int64_t head = number / per_head, j = number % per_head;
      const bool last = j + 1 == per_head;
      return {head * C + j * kLanes, head, 1, last ? tail : whole, j == 0, last};
    }
  }
  // The numbers of its heads, each in all lanes of its head.
  CPUACCEL_INLINE static Vector of_heads(const Number* numbers, const Place& at) {
    if constexpr (kC > 0) {
      return V::template load_heads<kC>(numbers + at.head, at.heads);
    } else {
      return V::set1(numbers[at.head]);
    }
  }
  CPUACCEL_INLINE static Vector load(const Number* row, const Place& at) {
    if constexpr (kMasked) {
      return V::load(row + at.offset, at.mask);
    }
    return V::load(row + at.offset);
  }
  CPUACCEL_INLINE static void store(Number* row, const Place& at, Vector v) {
    if constexpr (kMasked) {
      V::store(row + at.offset, v, at.mask);
    } else {
      V::store(row + at.offset, v);
    }
  }
  CPUACCEL_INLINE int64_t weight_of(int64_t e) const {
    return (perm != nullptr ? static_cast<int64_t>(perm[e]) : e) * H;
  }
  CPUACCEL_INLINE int64_t later(int64_t e, int64_t ahead) const {
    return e + ahead < call.csr.nnz ? e + ahead : call.csr.nnz - 1;
  }
  CPUACCEL_INLINE const Number* row_of(int64_t e) const {
    constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Number));
    const Number* next = src + static_cast<int64_t>(col[later(e, 8)]) * K;
    for (int64_t k = 0; k < K && k < 8 * kLine; k += kLine) {
      __builtin_prefetch(next + k);
    }
    return src + static_cast<int64_t>(col[e]) * K;
  }
  // 1 if z > 0, otherwise the slope.
  CPUACCEL_INLINE Vector steepness(Vector z) const {
    return V::select(V::larger_or_nan(z, V::set1(0)), V::set1(1), slope);
  }

  // Adds up each head's lanes of some vectors. If a head began in earlier vectors, adds to its
  // number.
  template <int kVectors>
  CPUACCEL_INLINE static void add_up(Number* to, const Place* places, const Vector* vectors) {
    if constexpr (kC > 0) {
      for (int j = 0; j < kVectors; ++j) {
        V::template store_heads<kC>(to + places[j].head, vectors[j], places[j].heads);
      }
      return;
    }
    bool began_before = !places[0].first;
    Vector sum = vectors[0];
    for (int j = 0; j < kVectors; ++j) {
      if (j > 0) {
        sum = places[j].first ? vectors[j] : V::add(sum, vectors[j]);
      }
      if (places[j].last || j + 1 == kVectors) {
        Number& number = to[places[j].head];
        number = began_before ? number + V::total(sum) : V::total(sum);
        began_before = false;
      }
    }
  }

  // kVectors vectors of each row, from vector `first` on.
  template <int kVectors, EdgeHeadsStep kStep>
  void part_of_rows(int64_t row, int64_t end, int64_t first) const {
    using enum EdgeHeadsStep;
    constexpr bool kScores = kStep == score || kStep == score_grad;
    constexpr bool kSums = kStep == sum || kStep == sum_dot || kStep == score_grad;
    constexpr bool kDots = kStep == dot || kStep == sum_dot || kStep == score;
    constexpr int64_t kAhead = 16;
    Number* const dots = kStep == sum_dot ? dst_dot : dst;
    Place places[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      places[j] = place(first + j);
    }
    for (int64_t m = row; m < end; ++m) {
      Vector results[kVectors], of_att[kVectors], mine[kVectors], factors[kVectors];
      for (int j = 0; j < kVectors; ++j) {
        results[j] = of_att[j] = V::set1(0);
        if constexpr (kStep != sum) {
          mine[j] = load(own + m * K, places[j]);
        }
        if constexpr (kScores) {
          factors[j] = load(att, places[j]);
        }
      }
      for (int64_t e = crow[m]; e < crow[m + 1]; ++e) {
        const int64_t number = weight_of(e);
        const Number* from = row_of(e);
        if (perm != nullptr) {
          const int64_t next = weight_of(later(e, kAhead));
          if constexpr (kSums) {
            __builtin_prefetch(weights + next);
          }
          if constexpr (kDots) {
            __builtin_prefetch(dots + next, 1);
          }
        }
        Vector products[kVectors];
        for (int j = 0; j < kVectors; ++j) {
          const Vector x = load(from, places[j]);
          const Vector w = kSums ? of_heads(weights + number, places[j]) : x;
          if constexpr (kScores) {
            const Vector z = V::add(mine[j], x), steep = steepness(z);
            if constexpr (kStep == score) {
              products[j] = V::multiply(factors[j], V::multiply(z, steep));
            } else {
              results[j] = V::fma(w, V::multiply(factors[j], steep), results[j]);
              of_att[j] = V::fma(w, V::multiply(z, steep), of_att[j]);
            }
          } else {
            if constexpr (kSums) {
              results[j] = V::fma(w, x, results[j]);
            }
            if constexpr (kDots) {
              products[j] = V::multiply(mine[j], x);
            }
          }
        }
        if constexpr (kDots) {
          add_up<kVectors>(dots + number, places, products);
        }
      }
      for (int j = 0; kSums && j < kVectors; ++j) {
        store(dst + m * K, places[j], results[j]);
        if (kStep == score_grad && dst_att != nullptr) {
          store(dst_att + m * K, places[j], of_att[j]);
        }
      }
    }
  }

  template <EdgeHeadsStep kStep>
  void whole_rows(int64_t row, int64_t end) const {
    constexpr bool kMany = sizeof(Vector) == 64;  // AVX-512, which also has more registers
    constexpr int kMost =
        kStep == EdgeHeadsStep::sum || (kMany && kStep == EdgeHeadsStep::sum_dot) ? 8 : 4;
    int64_t first = 0;
    for (; kMost == 8 && first + 8 <= vectors; first += 8) {
      part_of_rows<kMost, kStep>(row, end, first);
    }
    for (; first + 4 <= vectors; first += 4) {
      part_of_rows<4, kStep>(row, end, first);
    }
    for (; first < vectors; ++first) {
      part_of_rows<1, kStep>(row, end, first);
    }
  }

  void run(int64_t row, int64_t end) const {
    switch (call.step) {
      case EdgeHeadsStep::sum:
        return whole_rows<EdgeHeadsStep::sum>(row, end);
      case EdgeHeadsStep::dot:
        return whole_rows<EdgeHeadsStep::dot>(row, end);
      case EdgeHeadsStep::sum_dot:
        return whole_rows<EdgeHeadsStep::sum_dot>(row, end);
      case EdgeHeadsStep::score:
        return whole_rows<EdgeHeadsStep::score>(row, end);
      case EdgeHeadsStep::score_grad:
        return whole_rows<EdgeHeadsStep::score_grad>(row, end);
    }
  }
};

template <typename V, bool kMasked, int kC>
void edge_heads_by_index(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  if (call.csr.wide) {
    EdgeHeads<V, int64_t, kMasked, kC>{call}.run(row, row + rows);
  } else {
    EdgeHeads<V, int32_t, kMasked, kC>{call}.run(row, row + rows);
  }
}

// Dispatches on heads of kC columns, of half as many and so on, down to two.
template <typename V, int kC>
void edge_heads_side_by_side(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  if constexpr (kC > 1) {
    call.C == kC ? edge_heads_by_index<V, true, kC>(call, row, rows)
                 : edge_heads_side_by_side<V, kC / 2>(call, row, rows);
  }
}

// Uses Wide for heads that fill its vectors or share one, Narrow for the others.
template <typename Wide, typename Narrow>
void edge_heads_by_width(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  const int64_t C = call.C;
  if (C % Wide::kLanes == 0) {
    edge_heads_by_index<Wide, false, 0>(call, row, rows);
  } else if (C > Wide::kLanes) {
    edge_heads_by_index<Wide, true, 0>(call, row, rows);
  } else if (C > 1 && (C & (C - 1)) == 0) {
    edge_heads_side_by_side<Wide, static_cast<int>(Wide::kLanes / 2)>(call, row, rows);
  } else {
    edge_heads_by_index<Narrow, true, 0>(call, row, rows);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
