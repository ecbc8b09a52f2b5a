// spmm_amax_grad for any vector class V along k (csr/scalar.h). Included by ISA sources.
#pragma once

#include "kernels/csr/equal.h"
#include "kernels/inline.h"
#include "kernels/spmm_amax_grad/spmm_amax_grad.h"

namespace cpuaccel::kernels {
namespace {

// Columns [k, k + count) in kVectors vectors. If there is only one, it may be partial.
template <typename V, typename Index, int kVectors, bool kMasked>
struct SpmmAmaxGradTile {
  using Number = typename V::Number;
  using Vector = typename V::Vector;

  CPUACCEL_INLINE Vector load(const Number* from, int j) const {
    if constexpr (kMasked) {
      return V::load(from + k, mask);
    }
    return V::load(from + k + j * V::kLanes);
  }
  CPUACCEL_INLINE void store(Number* to, int j, Vector v) const {
    if constexpr (kMasked) {
      V::store(to + k, v, mask);
    } else {
      V::store(to + k + j * V::kLanes, v);
    }
  }
  CPUACCEL_INLINE Number value(int64_t e) const { return values != nullptr ? values[e] : 1; }
  CPUACCEL_INLINE Number* row(const void* of, int64_t number) const {
    return static_cast<Number*>(const_cast<void*>(of)) + number * call.K;
  }

  template <bool kPart>
  void shares(int64_t first, int64_t last) const {
    const auto* crow = call.csr.template crow_as<Index>();
    const auto* col = call.csr.template col_as<Index>();
    for (int64_t m = first; m < last; ++m) {
      Vector results[kVectors], counts[kVectors];
      for (int j = 0; j < kVectors; ++j) {
        results[j] = load(row(call.dst, m), j);
        counts[j] = kPart ? V::set1(0) : graph_equal<V>(results[j], V::set1(0));
      }
      for (int64_t e = crow[m]; e < crow[m + 1]; ++e) {
        const Vector factor = V::set1(value(e));
        const Number* src = row(call.src, col[e]);
        for (int j = 0; j < kVectors; ++j) {
          const Vector term = V::multiply(factor, load(src, j));
          counts[j] = V::add(counts[j], graph_equal<V>(term, results[j]));
        }
      }
      for (int j = 0; j < kVectors; ++j) {
        store(row(call.share, m), j,
              kPart ? counts[j] : V::divide(load(row(call.grad, m), j), counts[j]));
      }
    }
  }

  void sources(int64_t first, int64_t last) const {
    const auto* ccol = static_cast<const Index*>(call.columns.ccol);
    const auto* rows = static_cast<const Index*>(call.columns.row);
    const auto* perm = static_cast<const Index*>(call.columns.perm);
    for (int64_t n = first; n < last; ++n) {
      Vector x[kVectors], sums[kVectors];
      for (int j = 0; j < kVectors; ++j) {
        x[j] = load(row(call.src, n), j);
        sums[j] = V::set1(0);
      }
      for (int64_t i = ccol[n]; i < ccol[n + 1]; ++i) {
        const Vector factor = V::set1(value(perm[i]));
        const Number* dst = row(call.dst, rows[i]);
        const Number* share = row(call.share, rows[i]);
        for (int j = 0; j < kVectors; ++j) {
          const Vector hit = graph_equal<V>(V::multiply(factor, x[j]), load(dst, j));
          sums[j] = V::add(sums[j], V::multiply(factor, V::multiply(hit, load(share, j))));
        }
      }
      for (int j = 0; j < kVectors; ++j) {
        store(row(call.grad_src, n), j, sums[j]);
      }
    }
  }

  // Adds to the results of earlier columns.
  void of_values(int64_t first, int64_t last) const {
    const auto* crow = call.csr.template crow_as<Index>();
    const auto* col = call.csr.template col_as<Index>();
    auto* to = static_cast<Number*>(call.grad_values);
    for (int64_t m = first; m < last; ++m) {
      for (int64_t e = crow[m]; e < crow[m + 1]; ++e) {
        const Vector factor = V::set1(value(e));
        const Number* src = row(call.src, col[e]);
        Vector sum = V::set1(0);
        for (int j = 0; j < kVectors; ++j) {
          const Vector x = load(src, j);
          const Vector hit = graph_equal<V>(V::multiply(factor, x), load(row(call.dst, m), j));
          sum = V::add(sum, V::multiply(x, V::multiply(hit, load(row(call.share, m), j))));
        }
        // Masked lanes add 0: their loads give 0, so that none of them is 0 / 0.
        const Number total = V::total(sum);
        to[e] = k == 0 ? total : to[e] + total;
      }
    }
  }

  void run(SpmmAmaxGradStep step, int64_t first, int64_t last) const {
    if (step == SpmmAmaxGradStep::share) {
      shares<false>(first, last);
    } else if (step == SpmmAmaxGradStep::counts) {
      shares<true>(first, last);
    } else if (step == SpmmAmaxGradStep::src) {
      sources(first, last);
    } else {
      of_values(first, last);
    }
  }

  const SpmmAmaxGradCall& call;
  int64_t k;
  typename V::Mask mask;
  const Number* values = static_cast<const Number*>(call.values);
};

template <typename V, typename Index>
void spmm_amax_grad_columns(const SpmmAmaxGradCall& call, SpmmAmaxGradStep step, int64_t row,
                            int64_t rows) {
  constexpr int64_t kLanes = V::kLanes, kFew = kLanes == 1 ? 1 : 4;
  const auto whole = V::mask(kLanes);
  int64_t k = 0;
  for (; k + kFew * kLanes <= call.K; k += kFew * kLanes) {
    SpmmAmaxGradTile<V, Index, static_cast<int>(kFew), false>{call, k, whole}.run(step, row,
                                                                                  row + rows);
  }
  for (; k + kLanes <= call.K; k += kLanes) {
    SpmmAmaxGradTile<V, Index, 1, false>{call, k, whole}.run(step, row, row + rows);
  }
  if (k < call.K) {
    SpmmAmaxGradTile<V, Index, 1, true>{call, k, V::mask(call.K - k)}.run(step, row, row + rows);
  }
}

template <typename F32, typename F64>
void spmm_amax_grad_by_type(const SpmmAmaxGradCall& call, SpmmAmaxGradStep step, int64_t row,
                            int64_t rows) {
  if (call.type == DataType::f64) {
    call.csr.wide ? spmm_amax_grad_columns<F64, int64_t>(call, step, row, rows)
                  : spmm_amax_grad_columns<F64, int32_t>(call, step, row, rows);
  } else {
    call.csr.wide ? spmm_amax_grad_columns<F32, int64_t>(call, step, row, rows)
                  : spmm_amax_grad_columns<F32, int32_t>(call, step, row, rows);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
