// Spmm sums over one to three columns, in scalar code. Included by ISA files.
//
// No vector would be full, and a row of a few entries costs as much as its loop: masks, several
// chains and joining them take longer than the sums. Long rows use four chains.
#pragma once

#include <cstdint>

#include "kernels/inline.h"
#include "kernels/spmm/spmm.h"

namespace cpuaccel::kernels {
namespace {

inline constexpr int64_t kMostFewColumns = 3;

template <typename Number, typename Index, int kColumns, bool kValues>
struct FewColumns {
  static constexpr int64_t kLongRow = 32;  // entries from which on joining chains pays
  static constexpr int kChains = 4;

  const Index* col;
  const Number* values;
  const Number* src;
  int64_t stride;
  uint64_t N;

  CPUACCEL_INLINE bool add(int64_t e, Number* sums) const {
    const auto column = static_cast<uint64_t>(col[e]);  // negative columns become large
    if (column >= N) [[unlikely]] {
      return false;
    }
    const Number* x = src + static_cast<int64_t>(column) * stride;
#pragma GCC unroll 3
    for (int k = 0; k < kColumns; ++k) {
      if constexpr (kValues) {
        sums[k] += values[e] * x[k];
      } else {
        sums[k] += x[k];
      }
    }
    return true;
  }

  // Sums entries [begin, end) of a long row.
  CPUACCEL_INLINE bool long_row(int64_t begin, int64_t end, Number* sums) const {
    Number chains[kChains][kColumns] = {};
    int64_t e = begin;
    for (; e + kChains <= end; e += kChains) {
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain) {
        if (!add(e + chain, chains[chain])) {
          return false;
        }
      }
    }
    for (int k = 0; k < kColumns; ++k) {
      sums[k] = (chains[0][k] + chains[2][k]) + (chains[1][k] + chains[3][k]);
    }
    for (; e < end; ++e) {
      if (!add(e, sums)) {
        return false;
      }
    }
    return true;
  }

  CPUACCEL_INLINE bool row(int64_t begin, int64_t end, Number* sums) const {
    if (end - begin >= kLongRow) [[unlikely]] {
      return long_row(begin, end, sums);
    }
    for (int64_t e = begin; e < end; ++e) {
      if (!add(e, sums)) {
        return false;
      }
    }
    return true;
  }

  static bool run(const SpmmCall& call, const SpmmWork& work) {
    const FewColumns sum{call.csr.col_as<Index>(), static_cast<const Number*>(call.values),
                         static_cast<const Number*>(call.src), call.src_stride,
                         static_cast<uint64_t>(call.csr.N)};
    if (work.partial != nullptr) {
      auto* to = static_cast<Number*>(work.partial);
      for (int k = 0; k < kColumns; ++k) {
        to[k] = 0;
      }
      return sum.row(work.begin, work.end, to);
    }
    const auto* crow = call.csr.crow_as<Index>();
    const bool mean = call.reduce == Reduce::mean;
    auto* dst = static_cast<Number*>(call.dst) + work.row * kColumns;
    int64_t begin = crow[work.row];
    for (int64_t m = work.row; m < work.row + work.rows; ++m, dst += kColumns) {
      const int64_t end = crow[m + 1];
      Number sums[kColumns] = {};
      if (!sum.row(begin, end, sums)) {
        return false;
      }
      const auto count = static_cast<Number>(mean && end > begin ? end - begin : 1);
      for (int k = 0; k < kColumns; ++k) {
        dst[k] = mean ? sums[k] / count : sums[k];
      }
      begin = end;
    }
    return true;
  }
};

template <typename Number, typename Index, bool kValues>
bool few_columns_of(const SpmmCall& call, const SpmmWork& work) {
  return call.K == 1   ? FewColumns<Number, Index, 1, kValues>::run(call, work)
         : call.K == 2 ? FewColumns<Number, Index, 2, kValues>::run(call, work)
                       : FewColumns<Number, Index, 3, kValues>::run(call, work);
}

template <typename Number, typename Index>
bool few_columns_with(const SpmmCall& call, const SpmmWork& work) {
  return call.values != nullptr ? few_columns_of<Number, Index, true>(call, work)
                                : few_columns_of<Number, Index, false>(call, work);
}

// Whether few_columns() computes this call: a sum or mean of up to kMostFewColumns. For f32 and f64
// only.
bool suits_few_columns(const SpmmCall& call) {
  return call.K <= kMostFewColumns && (call.reduce == Reduce::sum || call.reduce == Reduce::mean);
}

template <typename Number>
bool few_columns(const SpmmCall& call, const SpmmWork& work) {
  return call.csr.wide ? few_columns_with<Number, int64_t>(call, work)
                       : few_columns_with<Number, int32_t>(call, work);
}

}  // namespace
}  // namespace cpuaccel::kernels
