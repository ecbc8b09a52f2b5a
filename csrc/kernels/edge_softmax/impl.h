// edge_softmax for any Exp, a type with a Number and exps(numbers, count), which works in place.
// Included by ISA sources.
#pragma once

#include "kernels/edge_softmax/edge_softmax.h"
#include "kernels/float_vectors/exp.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// kH heads, a divisor of kWidth, or any number of heads if kH is 0. The numbers of a node's edges
// are contiguous, so that elementwise work takes kWidth numbers at a time, regardless of heads.
template <typename Exp, typename Index, int kH>
struct EdgeSoftmax {
  using Number = typename Exp::Number;
  static constexpr int64_t kWidth = 16;
  static_assert(kH == 0 || kWidth % kH == 0);

  const EdgeSoftmaxCall& call;
  const int64_t H = kH > 0 ? kH : call.H;
  const int64_t width = kH > 0 ? kWidth : H;
  const Index* crow = call.csr.template crow_as<Index>();
  const Index* col = call.csr.template col_as<Index>();
  const Index* perm = static_cast<const Index*>(call.perm);
  const Number slope = static_cast<Number>(call.slope);
  const Number* scores = static_cast<const Number*>(call.scores);
  const Number* src = static_cast<const Number*>(call.src);
  const Number* own = static_cast<const Number*>(call.own);
  const Number* alpha = static_cast<const Number*>(call.alpha);
  const Number* grad = static_cast<const Number*>(call.grad);
  Number* dst = static_cast<Number*>(call.dst);
  Number* dst_own = static_cast<Number*>(call.dst_own);

  // Calls body(i, j) for each of `count` numbers i, H per edge. The same j < width always belongs
  // to the same head.
  template <typename Body>
  CPUACCEL_INLINE void each(int64_t count, const Body& body) const {
    int64_t i = 0;
    for (; i + width <= count; i += width) {
      for (int64_t j = 0; j < (kH > 0 ? kWidth : width); ++j) {
        body(i + j, j);
      }
    }
    for (int64_t j = 0; i + j < count; ++j) {
      body(i + j, j);
    }
  }
  CPUACCEL_INLINE void fill(Number* numbers, Number value) const {
    for (int64_t j = 0; j < width; ++j) {
      numbers[j] = value;
    }
  }
  // Joins the numbers of each head among `width` numbers, and stores the result at each of its
  // places.
  template <typename Join>
  CPUACCEL_INLINE void join(Number* numbers, const Join& joined) const {
    for (int64_t j = H; j < width; ++j) {
      numbers[j % H] = joined(numbers[j % H], numbers[j]);
    }
    for (int64_t j = H; j < width; ++j) {
      numbers[j] = numbers[j % H];
    }
  }
  CPUACCEL_INLINE static Number larger(Number a, Number b) { return b > a ? b : a; }
  CPUACCEL_INLINE static Number sum_of(Number a, Number b) { return a + b; }

  // Writes the scores of row m to `to`.
  CPUACCEL_INLINE void score(int64_t m, int64_t begin, int64_t end, Number* to) const {
    if (scores != nullptr) {
      for (int64_t i = 0; i < (end - begin) * H; ++i) {
        to[i] = scores[begin * H + i];
      }
      return;
    }
    for (int64_t e = begin; e < end; ++e, to += H) {
      const Number* from = src + static_cast<int64_t>(col[e]) * H;
      for (int64_t h = 0; h < H; ++h) {
        const Number z = from[h] + own[m * H + h];
        to[h] = z > 0 ? z : z * slope;
      }
    }
  }

  // The scores of row m, and the most of each head.
  CPUACCEL_INLINE void most_of(int64_t m, int64_t begin, int64_t end, Number* most) const {
    Number* to = dst + begin * H;
    score(m, begin, end, to);
    fill(most, -static_cast<Number>(__builtin_inff()));
    each((end - begin) * H, [&](int64_t i, int64_t j) { most[j] = larger(most[j], to[i]); });
    join(most, larger);
  }

  CPUACCEL_INLINE void exps_of(int64_t begin, int64_t end, const Number* most, Number* sum) const {
    const int64_t count = (end - begin) * H;
    Number* to = dst + begin * H;
    fill(sum, 0);
    each(count, [&](int64_t i, int64_t j) { to[i] -= most[j]; });
    Exp::exps(to, count);
    each(count, [&](int64_t i, int64_t j) { sum[j] += to[i]; });
    join(sum, sum_of);
  }

  CPUACCEL_INLINE void scale_by(int64_t begin, int64_t end, const Number* factor) const {
    Number* to = dst + begin * H;
    each((end - begin) * H, [&](int64_t i, int64_t j) { to[i] *= factor[j]; });
  }

  void softmax(int64_t m, Number* most, Number* sum) const {
    const int64_t begin = crow[m], end = crow[m + 1];
    most_of(m, begin, end, most);
    exps_of(begin, end, most, sum);
    for (int64_t j = 0; j < width; ++j) {
      sum[j] = 1 / (sum[j] + static_cast<Number>(1e-16));
    }
    scale_by(begin, end, sum);
  }

  CPUACCEL_INLINE void gradient_sum(int64_t begin, int64_t end, Number* sum) const {
    const Number *a = alpha + begin * H, *g = grad + begin * H;
    fill(sum, 0);
    each((end - begin) * H, [&](int64_t i, int64_t j) { sum[j] += a[i] * g[i]; });
    join(sum, sum_of);
  }

  // Row m of dst_own gets the sum of the results, if there are no scores.
  CPUACCEL_INLINE void apply_gradient(int64_t m, int64_t begin, int64_t end, const Number* sum,
                                      Number* of_own) const {
    const Number *a = alpha + begin * H, *g = grad + begin * H;
    Number* to = dst + begin * H;
    each((end - begin) * H, [&](int64_t i, int64_t j) { to[i] = a[i] * (g[i] - sum[j]); });
    if (scores != nullptr || src == nullptr) {
      return;
    }
    fill(of_own, 0);
    for (int64_t e = begin; e < end; ++e, to += H) {
      const Number* from = src + static_cast<int64_t>(col[e]) * H;
      for (int64_t h = 0; h < H; ++h) {
        to[h] *= from[h] + own[m * H + h] > 0 ? 1 : slope;
        of_own[h] += to[h];
      }
    }
    for (int64_t h = 0; h < H; ++h) {
      dst_own[m * H + h] = of_own[h];
    }
  }

  void gradient(int64_t m, Number* sum, Number* of_own) const {
    gradient_sum(crow[m], crow[m + 1], sum);
    apply_gradient(m, crow[m], crow[m + 1], sum, of_own);
  }

  // The step of a part of a row: its entries are those of row m.
  void part(int64_t m, Number* first, Number* second) const {
    const int64_t begin = crow[m], end = crow[m + 1];
    const auto* of_row = static_cast<const Number*>(call.of_row);
    for (int64_t j = 0; of_row != nullptr && j < width; ++j) {
      first[j] = of_row[j % H];
    }
    if (call.step == EdgeSoftmaxStep::most) {
      most_of(m, begin, end, second);
    } else if (call.step == EdgeSoftmaxStep::exps) {
      exps_of(begin, end, first, second);
    } else if (call.step == EdgeSoftmaxStep::gradient_sum) {
      gradient_sum(begin, end, second);
    } else if (call.step == EdgeSoftmaxStep::gradient_apply) {
      apply_gradient(m, begin, end, first, second);
      return;
    } else {
      scale_by(begin, end, first);
      return;
    }
    for (int64_t h = 0; h < H; ++h) {
      dst_own[m * H + h] = second[h];
    }
  }

  void by_source(int64_t n, Number* sum) const {
    constexpr int64_t kAhead = 16;
    fill(sum, 0);
    for (int64_t i = crow[n]; i < crow[n + 1]; ++i) {
      const int64_t later = i + kAhead < call.csr.nnz ? i + kAhead : call.csr.nnz - 1;
      __builtin_prefetch(scores + static_cast<int64_t>(perm[later]) * H);
      const Number* from = scores + static_cast<int64_t>(perm[i]) * H;
      for (int64_t h = 0; h < H; ++h) {
        sum[h] += from[h];
      }
    }
    for (int64_t h = 0; h < H; ++h) {
      dst[n * H + h] = sum[h];
    }
  }

  // `rest`: scratch memory, used if kH is 0.
  void run(int64_t row, int64_t end, Number* rest) const {
    Number numbers[2 * kWidth];
    Number* const first = kH > 0 ? numbers : rest;
    for (int64_t m = row; m < end; ++m) {
      if (call.step == EdgeSoftmaxStep::softmax) {
        softmax(m, first, first + width);
      } else if (call.step == EdgeSoftmaxStep::gradient) {
        gradient(m, first, first + width);
      } else if (call.step == EdgeSoftmaxStep::by_source) {
        by_source(m, first);
      } else {
        part(m, first, first + width);
      }
    }
  }
};

// exp of floats by a vector class V of float_vectors/exp.h. A partial vector goes through the
// stack.
template <typename V>
struct VectorExp {
  using Number = float;
  CPUACCEL_INLINE static void exps(float* numbers, int64_t count) {
    int64_t i = 0;
    for (; i + V::kLanes <= count; i += V::kLanes) {
      V::store(numbers + i, exp_negative<V>(V::negative(V::load(numbers + i))));
    }
    if (i < count) {
      float rest[V::kLanes] = {};
      for (int64_t j = i; j < count; ++j) {
        rest[j - i] = numbers[j];
      }
      V::store(rest, exp_negative<V>(V::negative(V::load(rest))));
      for (int64_t j = i; j < count; ++j) {
        numbers[j] = rest[j - i];
      }
    }
  }
};

template <typename Exp, typename Index>
void edge_softmax_by_heads(const EdgeSoftmaxCall& call, int64_t row, int64_t rows,
                           typename Exp::Number* scratch) {
  const int64_t end = row + rows;
  switch (call.H) {
    case 1:
      return EdgeSoftmax<Exp, Index, 1>{call}.run(row, end, scratch);
    case 2:
      return EdgeSoftmax<Exp, Index, 2>{call}.run(row, end, scratch);
    case 4:
      return EdgeSoftmax<Exp, Index, 4>{call}.run(row, end, scratch);
    case 8:
      return EdgeSoftmax<Exp, Index, 8>{call}.run(row, end, scratch);
    default:
      return EdgeSoftmax<Exp, Index, 0>{call}.run(row, end, scratch);
  }
}

template <typename Exp>
void edge_softmax_by_index(const EdgeSoftmaxCall& call, int64_t row, int64_t rows, void* scratch) {
  auto* numbers = static_cast<typename Exp::Number*>(scratch);
  call.csr.wide ? edge_softmax_by_heads<Exp, int64_t>(call, row, rows, numbers)
                : edge_softmax_by_heads<Exp, int32_t>(call, row, rows, numbers);
}

}  // namespace
}  // namespace cpuaccel::kernels
