// Loops of the scatter_amax_grad kernels, templated on a vector type V along the columns, described
// in spmm/impl.h. Included by ISA files.
#pragma once

#include <cstdint>

#include "kernels/csr/equal.h"
#include "kernels/inline.h"
#include "kernels/scatter_amax_grad/scatter_amax_grad.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
struct ScatterAmaxGradRule {
  using Vector = typename V::Vector;

  Vector of_nan;  // 1 if NaN is a tie, else 0
  bool zeroes;

  CPUACCEL_INLINE Vector of(Vector x, Vector value, Vector share) const {
    const Vector zero = V::set1(0), half = V::set1(0.5f);
    const auto tie = V::larger_or_nan(graph_equal<V>(x, value, of_nan), half);
    return V::select(tie, share, zeroes ? zero : V::multiply(zero, share));
  }
};

template <typename V, typename Index>
void scatter_amax_grad_entries(const ScatterAmaxGradCall& call, int64_t begin, int64_t end) {
  using Element = typename V::Element;
  constexpr int64_t kAhead = 8, kLine = 64, kFetched = 8 * kLine;  // hardware fetches the rest
  const auto* index = static_cast<const Index*>(call.index);
  const auto* values = static_cast<const Element*>(call.value);
  const auto* shares = static_cast<const Element*>(call.share);
  const int64_t K = call.K, whole = K / V::kLanes * V::kLanes;
  const auto N = static_cast<uint64_t>(call.N);
  const auto mask = V::mask(K - whole);
  const ScatterAmaxGradRule<V> rule{V::set1(call.nan_ties ? 1 : 0), call.zeroes};
  const int64_t row_bytes = K * static_cast<int64_t>(sizeof(Element));
  const int64_t fetched = row_bytes < kFetched ? row_bytes : kFetched;
  for (int64_t e = begin; e < end; ++e) {
    // Integers, not pointers, because the row may be invalid.
    const auto later = static_cast<uint64_t>(index[e + kAhead < end ? e + kAhead : end - 1]) *
                       static_cast<uint64_t>(row_bytes);
    for (int64_t at = 0; at < fetched; at += kLine) {
      const uint64_t offset = later + static_cast<uint64_t>(at);
      __builtin_prefetch(reinterpret_cast<const void*>(  // NOLINT: never read
          reinterpret_cast<uintptr_t>(values) + offset));
      __builtin_prefetch(reinterpret_cast<const void*>(  // NOLINT: likewise
          reinterpret_cast<uintptr_t>(shares) + offset));
    }
    const Element* src = static_cast<const Element*>(call.src) + e * call.src_stride;
    Element* dst = static_cast<Element*>(call.dst) + e * K;
    const auto row = static_cast<uint64_t>(index[e]);
    if (row >= N) [[unlikely]] {
      for (int64_t k = 0; k < K; ++k) {
        dst[k] = 0;
      }
      continue;
    }
    const Element* value = values + static_cast<int64_t>(row) * K;
    const Element* share = shares + static_cast<int64_t>(row) * K;
    for (int64_t k = 0; k < whole; k += V::kLanes) {
      V::store(dst + k, rule.of(V::load(src + k), V::load(value + k), V::load(share + k)));
    }
    if (whole < K) {
      const auto result = rule.of(V::load(src + whole, mask), V::load(value + whole, mask),
                                  V::load(share + whole, mask));
      V::store(dst + whole, result, mask);
    }
  }
}

// Uses the first of these vector types that the columns fill; the last one accepts any number.
template <typename V, typename... Narrower>
void scatter_amax_grad_by_width(const ScatterAmaxGradCall& call, int64_t begin, int64_t end) {
  if constexpr (sizeof...(Narrower) > 0) {
    if (call.K < V::kLanes) {
      scatter_amax_grad_by_width<Narrower...>(call, begin, end);
      return;
    }
  }
  if (call.wide) {
    scatter_amax_grad_entries<V, int64_t>(call, begin, end);
  } else {
    scatter_amax_grad_entries<V, int32_t>(call, begin, end);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
