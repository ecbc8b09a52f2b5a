#include "kernels/csr/transpose.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/csr/counting.h"
#include "kernels/csr/cut.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {
namespace {

// The row of entry e: the last row that begins at e or before and is not empty.
template <typename Index>
int64_t row_of(const Csr& csr, int64_t e) {
  const auto* crow = csr.crow_as<Index>();
  return std::upper_bound(crow, crow + csr.M + 1, static_cast<Index>(e)) - crow - 1;
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
  Counts<Out> counts(csr.nnz, csr.N, parallel_threads());
  if (!count(csr.col_as<In>(), counts)) {
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
  parallel_for(0, csr.nnz, kCountGrain, [&](int64_t begin, int64_t end) {
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
void gather_values(const Csr& csr, const CsrColumns& columns, const void* values, DataType type,
                   bool mean, void* dst) {
  auto* floats = static_cast<float*>(dst);
  auto* doubles = static_cast<double*>(dst);
  const auto* halves = static_cast<const uint16_t*>(values);
  const auto fill = [&](auto* to, const auto& value) {
    gather<In, Out>(csr, columns, mean, to, value);
  };
  if (values == nullptr && type == DataType::f64) {
    fill(doubles, [](int64_t) { return 1.0; });
  } else if (values == nullptr) {
    fill(floats, [](int64_t) { return 1.0f; });
  } else if (type == DataType::f64) {
    fill(doubles, [from = static_cast<const double*>(values)](int64_t e) { return from[e]; });
  } else if (type == DataType::f32) {
    fill(floats, [from = static_cast<const float*>(values)](int64_t e) { return from[e]; });
  } else if (type == DataType::bf16) {
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
                        DataType type, bool mean, void* dst) {
  if (columns.wide) {
    csr.wide ? gather_values<int64_t, int64_t>(csr, columns, values, type, mean, dst)
             : gather_values<int32_t, int64_t>(csr, columns, values, type, mean, dst);
  } else {
    csr.wide ? gather_values<int64_t, int32_t>(csr, columns, values, type, mean, dst)
             : gather_values<int32_t, int32_t>(csr, columns, values, type, mean, dst);
  }
}

}  // namespace cpuaccel::kernels
