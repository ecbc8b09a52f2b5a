// The loops of edge_heads, over a type V of vectors along a head's columns (csr/scalar.h). Included
// by ISA files.
#pragma once

#include "kernels/edge_heads/edge_heads.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, typename Index, bool kMasked>
struct EdgeHeads {
  using Number = typename V::Number;
  using Vector = typename V::Vector;
  static constexpr int64_t kLanes = V::kLanes;

  const EdgeHeadsCall& call;
  const int64_t H = call.H, C = call.C, K = H * C;
  const int64_t per_head = (C + kLanes - 1) / kLanes;  // vectors
  const typename V::Mask tail = V::mask(C - (per_head - 1) * kLanes);
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
  const Vector slope = V::set1(static_cast<Number>(call.slope));

  // A vector of a row: where it begins, whose head it is, which of its lanes are there.
  struct Place {
    int64_t offset, head;
    typename V::Mask mask;
  };
  CPUACCEL_INLINE Place place(int64_t number) const {
    const int64_t head = number / per_head, j = number % per_head;
    return {head * C + j * kLanes, head, j + 1 == per_head ? tail : whole};
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
  CPUACCEL_INLINE const Number* row_of(int64_t e) const {
    constexpr int64_t kAhead = 8, kLine = 64 / static_cast<int64_t>(sizeof(Number));
    const int64_t later = e + kAhead < call.csr.nnz ? e + kAhead : call.csr.nnz - 1;
    const Number* next = src + static_cast<int64_t>(col[later]) * K;
    for (int64_t k = 0; k < K && k < 8 * kLine; k += kLine) {
      __builtin_prefetch(next + k);
    }
    return src + static_cast<int64_t>(col[e]) * K;
  }
  // 1 where z > 0, the slope elsewhere.
  CPUACCEL_INLINE Vector steepness(Vector z) const {
    return V::select(V::larger_or_nan(z, V::set1(0)), V::set1(1), slope);
  }

  // Sums over edges, of kVectors vectors of each row from `first` on.
  template <int kVectors, EdgeHeadsStep kStep>
  void sums(int64_t row, int64_t end, int64_t first) const {
    constexpr bool kGrad = kStep == EdgeHeadsStep::score_grad;
    Place places[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      places[j] = place(first + j);
    }
    for (int64_t m = row; m < end; ++m) {
      Vector results[kVectors], of_att[kVectors], mine[kVectors], factors[kVectors];
      for (int j = 0; j < kVectors; ++j) {
        results[j] = of_att[j] = V::set1(0);
        if constexpr (kGrad) {
          mine[j] = load(own + m * K, places[j]);
          factors[j] = load(att, places[j]);
        }
      }
      for (int64_t e = crow[m]; e < crow[m + 1]; ++e) {
        const Number* weight = weights + weight_of(e);
        const Number* from = row_of(e);
        for (int j = 0; j < kVectors; ++j) {
          const Vector w = V::set1(weight[places[j].head]);
          const Vector x = load(from, places[j]);
          if constexpr (kGrad) {
            const Vector z = V::add(mine[j], x), steep = steepness(z);
            results[j] = V::fma(w, V::multiply(factors[j], steep), results[j]);
            of_att[j] = V::fma(w, V::multiply(z, steep), of_att[j]);
          } else {
            results[j] = V::fma(w, x, results[j]);
          }
        }
      }
      for (int j = 0; j < kVectors; ++j) {
        store(dst + m * K, places[j], results[j]);
        if (kGrad && dst_att != nullptr) {
          store(dst_att + m * K, places[j], of_att[j]);
        }
      }
    }
  }

  template <EdgeHeadsStep kStep>
  void all_sums(int64_t row, int64_t end) const {
    constexpr int kMost = kStep == EdgeHeadsStep::sum ? 8 : 4;
    const int64_t count = H * per_head;
    int64_t first = 0;
    for (; first + kMost <= count; first += kMost) {
      sums<kMost, kStep>(row, end, first);
    }
    for (; first + 2 <= count; first += 2) {
      sums<2, kStep>(row, end, first);
    }
    if (first < count) {
      sums<1, kStep>(row, end, first);
    }
  }

  // A number for each edge and head.
  template <EdgeHeadsStep kStep>
  void products(int64_t row, int64_t end) const {
    for (int64_t m = row; m < end; ++m) {
      for (int64_t e = crow[m]; e < crow[m + 1]; ++e) {
        Number* to = dst + weight_of(e);
        const Number* from = row_of(e);
        const Number* mine = own + m * K;
        for (int64_t h = 0; h < H; ++h) {
          Vector sum = V::set1(0);
          for (int64_t j = 0; j < per_head; ++j) {
            const Place at{h * C + j * kLanes, h, j + 1 == per_head ? tail : whole};
            const Vector a = load(mine, at), b = load(from, at);
            if constexpr (kStep == EdgeHeadsStep::dot) {
              sum = V::fma(a, b, sum);
            } else {
              const Vector z = V::add(a, b);
              sum = V::fma(load(att, at), V::multiply(z, steepness(z)), sum);
            }
          }
          to[h] = V::total(sum);
        }
      }
    }
  }

  void run(int64_t row, int64_t end) const {
    switch (call.step) {
      case EdgeHeadsStep::sum:
        return all_sums<EdgeHeadsStep::sum>(row, end);
      case EdgeHeadsStep::score_grad:
        return all_sums<EdgeHeadsStep::score_grad>(row, end);
      case EdgeHeadsStep::dot:
        return products<EdgeHeadsStep::dot>(row, end);
      case EdgeHeadsStep::score:
        return products<EdgeHeadsStep::score>(row, end);
    }
  }
};

template <typename V>
void edge_heads_by_index(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  const bool masked = call.C % V::kLanes != 0;
  if (call.csr.wide) {
    masked ? EdgeHeads<V, int64_t, true>{call}.run(row, row + rows)
           : EdgeHeads<V, int64_t, false>{call}.run(row, row + rows);
  } else {
    masked ? EdgeHeads<V, int32_t, true>{call}.run(row, row + rows)
           : EdgeHeads<V, int32_t, false>{call}.run(row, row + rows);
  }
}

// F32 for heads that fill it, Narrow for others.
template <typename F32, typename Narrow, typename F64>
void edge_heads_by_type(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  if (call.type == GraphType::f64) {
    edge_heads_by_index<F64>(call, row, rows);
  } else if (call.C >= F32::kLanes) {
    edge_heads_by_index<F32>(call, row, rows);
  } else {
    edge_heads_by_index<Narrow>(call, row, rows);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
