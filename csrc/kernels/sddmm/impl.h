// Loops of the sddmm kernels, templated on a vector type V along k (csr/scalar.h). Included by ISA
// files.
#pragma once

#include "kernels/inline.h"
#include "kernels/sddmm/sddmm.h"

namespace cpuaccel::kernels {
namespace {

// The sum of a[k] * b[k], in four independent sums.
template <typename V>
CPUACCEL_INLINE typename V::Number dot(const typename V::Element* a, const typename V::Element* b,
                                       int64_t K) {
  constexpr int64_t kLanes = V::kLanes;
  typename V::Vector sums[4] = {V::set1(0), V::set1(0), V::set1(0), V::set1(0)};
  int64_t k = 0;
  for (; k + 4 * kLanes <= K; k += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      sums[j] = V::fma(V::load(a + k + j * kLanes), V::load(b + k + j * kLanes), sums[j]);
    }
  }
  for (; k + kLanes <= K; k += kLanes) {
    sums[0] = V::fma(V::load(a + k), V::load(b + k), sums[0]);
  }
  if (k < K) {
    const auto mask = V::mask(K - k);
    sums[1] = V::fma(V::load(a + k, mask), V::load(b + k, mask), sums[1]);
  }
  return V::total(V::add(V::add(sums[0], sums[1]), V::add(sums[2], sums[3])));
}

template <typename V>
CPUACCEL_INLINE void store_number(typename V::Element* dst, typename V::Number number) {
  V::store(dst, V::set1(number), V::mask(1));
}

template <typename V, typename Index>
bool entries(const SddmmCall& call, int64_t row, int64_t begin, int64_t end) {
  using Element = typename V::Element;
  using Number = typename V::Number;
  constexpr int64_t kAheadBytes = 16384;
  const auto* crow = call.csr.crow_as<Index>();
  const auto* col = call.csr.col_as<Index>();
  const auto* b = static_cast<const Element*>(call.b);
  auto* dst = static_cast<Element*>(call.dst);
  const auto bytes = static_cast<uint64_t>(call.K) * sizeof(Element);
  const int64_t rows = kAheadBytes / static_cast<int64_t>(bytes + 1);
  const int64_t ahead = rows < 4 ? 4 : rows > 64 ? 64 : rows;
  int64_t e = begin;
  for (int64_t m = row; e < end; ++m) {
    const auto* a = static_cast<const Element*>(call.a) + m * call.a_stride;
    const int64_t row_end = crow[m + 1] < end ? static_cast<int64_t>(crow[m + 1]) : end;
    const auto length = static_cast<Number>(crow[m + 1] - crow[m]);
    for (; e < row_end; ++e) {
      const auto column = static_cast<uint64_t>(col[e]);  // negative columns become large
      if (column >= static_cast<uint64_t>(call.csr.N)) [[unlikely]] {
        return false;
      }
      // Integers, not pointers, because this column is not checked yet.
      const int64_t later = e + ahead < end ? e + ahead : end - 1;
      const auto first = reinterpret_cast<uintptr_t>(b) + static_cast<uint64_t>(col[later]) *
                                                              static_cast<uint64_t>(call.b_stride) *
                                                              sizeof(Element);
      for (auto line = first; line < first + bytes; line += 64) {
        __builtin_prefetch(reinterpret_cast<const void*>(line));  // NOLINT: never read through
      }
      const Number sum = dot<V>(a, b + static_cast<int64_t>(column) * call.b_stride, call.K);
      store_number<V>(dst + e, call.mean ? sum / length : sum);
    }
  }
  return true;
}

template <typename V>
bool by_index(const SddmmCall& call, int64_t row, int64_t begin, int64_t end) {
  return call.csr.wide ? entries<V, int64_t>(call, row, begin, end)
                       : entries<V, int32_t>(call, row, begin, end);
}

template <typename F32, typename F64, typename Bf16, typename F16>
bool by_type(const SddmmCall& call, int64_t row, int64_t begin, int64_t end) {
  switch (call.type) {
    case DataType::f32:
      return by_index<F32>(call, row, begin, end);
    case DataType::f64:
      return by_index<F64>(call, row, begin, end);
    case DataType::bf16:
      return by_index<Bf16>(call, row, begin, end);
    case DataType::f16:
      return by_index<F16>(call, row, begin, end);
    default:
      __builtin_unreachable();
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
