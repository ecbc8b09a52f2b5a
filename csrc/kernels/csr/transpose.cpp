#include "kernels/csr/transpose.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/parallel.h"
#include "kernels/csr/cut.h"
#include "kernels/gemm/half.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kGrain = 1 << 16;  // entries for which a thread is worth waking

// The row that entry e is in: the last that begins at e or before and is not empty.
template <typename Index>
int64_t row_of(const Csr& csr, int64_t e) {
  const auto* crow = csr.crow_as<Index>();
  return std::upper_bound(crow, crow + csr.M + 1, static_cast<Index>(e)) - crow - 1;
}

// Entries in ranges, each with counts of its own of every column.
template <typename Out>
struct Counts {
  Counts(const Csr& csr, int64_t most)
      : nnz(csr.nnz), N(csr.N), ranges(std::clamp<int64_t>(csr.nnz / kGrain, 1, most)) {
    // Counting must not take more memory and time than the entries themselves.
    ranges = std::clamp<int64_t>(ranges, 1, std::max<int64_t>(1, 2 * nnz / (N + 1)));
    of_range.assign(static_cast<size_t>(ranges), std::vector<Out>(static_cast<size_t>(N)));
  }
  int64_t begin(int64_t range) const {
    return nnz / ranges * range + std::min(range, nnz % ranges);
  }
  Out* counts(int64_t range) { return of_range[static_cast<size_t>(range)].data(); }

  int64_t nnz, N, ranges;
  std::vector<std::vector<Out>> of_range;
};

template <typename In, typename Out>
bool count(const Csr& csr, Counts<Out>& counts) {
  const auto* col = csr.col_as<In>();
  std::atomic<bool> good{true};
  parallel_for(0, counts.ranges, 1, [&](int64_t first, int64_t last) {
    for (int64_t range = first; range < last; ++range) {
      Out* of_column = counts.counts(range);
      for (int64_t e = counts.begin(range); e < counts.begin(range + 1); ++e) {
        if (static_cast<uint64_t>(col[e]) >= static_cast<uint64_t>(csr.N)) {
          good.store(false, std::memory_order_relaxed);
          return;
        }
        ++of_column[col[e]];
      }
    }
  });
  return good;
}

// Counts become the places where a range's entries of a column go.
template <typename Out>
void place(Counts<Out>& counts, Out* ccol) {
  Out next = 0;
  for (int64_t n = 0; n < counts.N; ++n) {
    ccol[n] = next;
    for (auto& of_column : counts.of_range) {
      const Out entries = of_column[static_cast<size_t>(n)];
      of_column[static_cast<size_t>(n)] = next;
      next += entries;
    }
  }
  ccol[counts.N] = next;
}

template <typename In, typename Out>
void spread(const Csr& csr, Counts<Out>& counts, const CsrColumns& dst) {
  const auto* crow = csr.crow_as<In>();
  const auto* col = csr.col_as<In>();
  auto* row = static_cast<Out*>(dst.row);
  auto* perm = static_cast<Out*>(dst.perm);
  parallel_for(0, counts.ranges, 1, [&](int64_t first, int64_t last) {
    for (int64_t range = first; range < last; ++range) {
      Out* next = counts.counts(range);
      const int64_t end = counts.begin(range + 1);
      int64_t e = counts.begin(range);
      for (int64_t m = e < end ? row_of<In>(csr, e) : 0; e < end; ++m) {
        for (const int64_t row_end = std::min<int64_t>(crow[m + 1], end); e < row_end; ++e) {
          const Out at = next[col[e]]++;
          row[at] = static_cast<Out>(m);
          perm[at] = static_cast<Out>(e);
        }
      }
    }
  });
}

template <typename In, typename Out>
CsrFault transpose(const Csr& csr, const CsrColumns& dst) {
  Counts<Out> counts(csr, parallel_threads());
  if (!count<In>(csr, counts)) {
    return CsrFault::col;
  }
  place(counts, static_cast<Out*>(dst.ccol));
  spread<In>(csr, counts, dst);
  return CsrFault::none;
}

template <typename In, typename Out, typename Number, typename Value>
void gather(const Csr& csr, const CsrColumns& columns, bool mean, Number* dst, const Value& value) {
  const auto* crow = csr.crow_as<In>();
  const auto* row = static_cast<const Out*>(columns.row);
  const auto* perm = static_cast<const Out*>(columns.perm);
  parallel_for(0, csr.nnz, kGrain, [&](int64_t begin, int64_t end) {
    if (!mean) {
      for (int64_t i = begin; i < end; ++i) {
        dst[i] = value(perm[i]);
      }
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      const auto m = row[i];
      dst[i] = value(perm[i]) / static_cast<Number>(crow[m + 1] - crow[m]);
    }
  });
}

template <typename In, typename Out>
void gather_values(const Csr& csr, const CsrColumns& columns, const void* values, GraphType type,
                   bool mean, void* dst) {
  auto* floats = static_cast<float*>(dst);
  auto* doubles = static_cast<double*>(dst);
  const auto* halves = static_cast<const uint16_t*>(values);
  const auto fill = [&](auto* to, const auto& value) {
    gather<In, Out>(csr, columns, mean, to, value);
  };
  if (values == nullptr && type == GraphType::f64) {
    fill(doubles, [](int64_t) { return 1.0; });
  } else if (values == nullptr) {
    fill(floats, [](int64_t) { return 1.0f; });
  } else if (type == GraphType::f64) {
    fill(doubles, [from = static_cast<const double*>(values)](int64_t e) { return from[e]; });
  } else if (type == GraphType::f32) {
    fill(floats, [from = static_cast<const float*>(values)](int64_t e) { return from[e]; });
  } else if (type == GraphType::bf16) {
    fill(floats, [halves](int64_t e) { return bf16_to_float(halves[e]); });
  } else {
    fill(floats, [halves](int64_t e) { return f16_to_float(halves[e]); });
  }
}

}  // namespace

CsrFault csr_transpose(const Csr& csr, const CsrColumns& dst) {
  if (!csr_ascends(csr)) {
    return CsrFault::crow;
  }
  if (dst.wide) {
    return csr.wide ? transpose<int64_t, int64_t>(csr, dst) : transpose<int32_t, int64_t>(csr, dst);
  }
  return csr.wide ? transpose<int64_t, int32_t>(csr, dst) : transpose<int32_t, int32_t>(csr, dst);
}

void csr_columns_values(const Csr& csr, const CsrColumns& columns, const void* values,
                        GraphType type, bool mean, void* dst) {
  if (columns.wide) {
    csr.wide ? gather_values<int64_t, int64_t>(csr, columns, values, type, mean, dst)
             : gather_values<int32_t, int64_t>(csr, columns, values, type, mean, dst);
  } else {
    csr.wide ? gather_values<int64_t, int32_t>(csr, columns, values, type, mean, dst)
             : gather_values<int32_t, int32_t>(csr, columns, values, type, mean, dst);
  }
}

}  // namespace cpuaccel::kernels
