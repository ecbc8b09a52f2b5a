// The loops of edge_softmax. Exp is a type with a Number and exps(numbers, count), in place.
// Included by ISA files.
#pragma once

#include "kernels/edge_softmax/edge_softmax.h"
#include "kernels/floats/exp.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename Exp, typename Index>
struct EdgeSoftmax {
  using Number = typename Exp::Number;

  const EdgeSoftmaxCall& call;
  const int64_t H = call.H;
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

  // The scores of row m, into `to`.
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

  void softmax(int64_t m, Number* most, Number* sum) const {
    const int64_t begin = crow[m], end = crow[m + 1];
    Number* to = dst + begin * H;
    score(m, begin, end, to);
    for (int64_t h = 0; h < H; ++h) {
      most[h] = -static_cast<Number>(__builtin_inff());
      sum[h] = 0;
    }
    for (int64_t i = 0; i < end - begin; ++i) {
      for (int64_t h = 0; h < H; ++h) {
        most[h] = to[i * H + h] > most[h] ? to[i * H + h] : most[h];
      }
    }
    for (int64_t i = 0; i < end - begin; ++i) {
      for (int64_t h = 0; h < H; ++h) {
        to[i * H + h] -= most[h];
      }
    }
    Exp::exps(to, (end - begin) * H);
    for (int64_t i = 0; i < end - begin; ++i) {
      for (int64_t h = 0; h < H; ++h) {
        sum[h] += to[i * H + h];
      }
    }
    for (int64_t h = 0; h < H; ++h) {
      sum[h] = 1 / (sum[h] + static_cast<Number>(1e-16));
    }
    for (int64_t i = 0; i < end - begin; ++i) {
      for (int64_t h = 0; h < H; ++h) {
        to[i * H + h] *= sum[h];
      }
    }
  }

  void gradient(int64_t m, Number* sum, Number* of_own) const {
    const int64_t begin = crow[m], end = crow[m + 1];
    for (int64_t h = 0; h < H; ++h) {
      sum[h] = of_own[h] = 0;
    }
    for (int64_t e = begin; e < end; ++e) {
      for (int64_t h = 0; h < H; ++h) {
        sum[h] += alpha[e * H + h] * grad[e * H + h];
      }
    }
    for (int64_t e = begin; e < end; ++e) {
      Number* to = dst + e * H;
      for (int64_t h = 0; h < H; ++h) {
        to[h] = alpha[e * H + h] * (grad[e * H + h] - sum[h]);
      }
      if (scores == nullptr && src != nullptr) {
        const Number* from = src + static_cast<int64_t>(col[e]) * H;
        for (int64_t h = 0; h < H; ++h) {
          to[h] *= from[h] + own[m * H + h] > 0 ? 1 : slope;
          of_own[h] += to[h];
        }
      }
    }
    if (dst_own != nullptr) {
      for (int64_t h = 0; h < H; ++h) {
        dst_own[m * H + h] = of_own[h];
      }
    }
  }

  void by_source(int64_t n) const {
    Number* to = dst + n * H;
    for (int64_t h = 0; h < H; ++h) {
      to[h] = 0;
    }
    for (int64_t i = crow[n]; i < crow[n + 1]; ++i) {
      const Number* from = scores + static_cast<int64_t>(perm[i]) * H;
      for (int64_t h = 0; h < H; ++h) {
        to[h] += from[h];
      }
    }
  }

  void run(int64_t row, int64_t end, Number* scratch) const {
    for (int64_t m = row; m < end; ++m) {
      if (call.step == EdgeSoftmaxStep::softmax) {
        softmax(m, scratch, scratch + H);
      } else if (call.step == EdgeSoftmaxStep::gradient) {
        gradient(m, scratch, scratch + H);
      } else {
        by_source(m);
      }
    }
  }
};

// exp of floats, by vectors V of floats/exp.h; what is beyond the last whole one by way of the
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

template <typename Exp>
void edge_softmax_by_index(const EdgeSoftmaxCall& call, int64_t row, int64_t rows, void* scratch) {
  auto* numbers = static_cast<typename Exp::Number*>(scratch);
  call.csr.wide ? EdgeSoftmax<Exp, int64_t>{call}.run(row, row + rows, numbers)
                : EdgeSoftmax<Exp, int32_t>{call}.run(row, row + rows, numbers);
}

}  // namespace
}  // namespace cpuaccel::kernels
