#include "kernels/scatter/reduce.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/parallel.h"
#include "kernels/round_up.h"
#include "kernels/scatter/order.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kGrain = 1 << 16;  // indices

template <typename Index>
void count(const Index* index, int64_t begin, int64_t end, std::vector<int64_t>& counts) {
  const auto N = static_cast<uint64_t>(counts.size());
  for (int64_t e = begin; e < end; ++e) {
    if (const auto n = static_cast<uint64_t>(index[e]); n < N) [[likely]] {
      ++counts[n];
    }
  }
}

template <typename Number, typename Body>
void over_rows(const ScatterCall& call, const ScatterWork& part, const Body& body) {
  auto* row = static_cast<Number*>(call.dst) + part.row * call.dst_stride + part.k;
  for (int64_t n = part.row; n < part.row + part.rows; ++n, row += call.dst_stride) {
    body(row, n);
  }
}

template <typename Number>
void fill(const ScatterCall& call, const ScatterWork& part, const std::vector<int64_t>& counts,
          Number value) {
  over_rows<Number>(call, part, [&](Number* row, int64_t n) {
    if (counts[static_cast<size_t>(n)] > 0) {
      std::fill_n(row, part.columns, value);
    }
  });
}

template <typename Number>
void divide(const ScatterCall& call, const ScatterWork& part, const std::vector<int64_t>& counts,
            bool include_dst) {
  over_rows<Number>(call, part, [&](Number* row, int64_t n) {
    const int64_t terms = counts[static_cast<size_t>(n)] + (include_dst ? 1 : 0);
    if (terms > 1) {
      const auto divisor = static_cast<Number>(terms);
      for (int64_t k = 0; k < part.columns; ++k) {
        row[k] /= divisor;
      }
    }
  });
}

template <typename Number>
Number start_of(ScatterOp op) {
  constexpr Number kInfinity = std::numeric_limits<Number>::infinity();
  return op == ScatterOp::sum       ? 0
         : op == ScatterOp::product ? 1
         : op == ScatterOp::amax    ? -kInfinity
                                    : kInfinity;
}

// One thread does all steps of a part, so that its cache lines do not move between threads.
template <typename Number>
void reduce(const ScatterCall& call, bool mean, bool include_dst) {
  const auto function = first_usable(scatter_kernels()).function;
  if (const auto sorted = sorted_entries(call)) {
    ScatterOrder order = sorted->order();
    order.include_dst = include_dst;
    order.mean = mean;
    order.start = static_cast<double>(start_of<Number>(call.op));
    scatter_in_order(call, order, function);
    return;
  }
  std::vector<int64_t> counts;
  if (mean || !include_dst) {
    counts = index_counts(call.index, call.wide, call.E, call.N);
  }
  for_each_scatter_part(call, [&](const ScatterWork& part) {
    if (!include_dst) {
      fill<Number>(call, part, counts, start_of<Number>(call.op));
    }
    function(call, part);
    if (mean) {
      divide<Number>(call, part, counts, include_dst);
    }
  });
}

}  // namespace

std::vector<int64_t> index_counts(const void* index, bool wide, int64_t E, int64_t N) {
  // Per-thread counts must not take more memory and time than the index itself.
  const int64_t most = std::clamp<int64_t>(E / kGrain, 1, parallel_threads());
  const int64_t ranges = std::clamp<int64_t>(E / (N + 1), 1, most);
  std::vector<std::vector<int64_t>> of_range(static_cast<size_t>(ranges));
  const int64_t each = divide_up(E, ranges);
  parallel_for(0, ranges, 1, [&](int64_t first, int64_t last) {
    for (int64_t range = first; range < last; ++range) {
      auto& counts = of_range[static_cast<size_t>(range)];
      counts.assign(static_cast<size_t>(N), 0);
      const int64_t begin = std::min(E, range * each), end = std::min(E, begin + each);
      if (wide) {
        count(static_cast<const int64_t*>(index), begin, end, counts);
      } else {
        count(static_cast<const int32_t*>(index), begin, end, counts);
      }
    }
  });
  auto& all = of_range.front();
  for (size_t range = 1; range < of_range.size(); ++range) {
    std::ranges::transform(all, of_range[range], all.begin(), std::plus<>());
  }
  return std::move(all);
}

void scatter_reduce(const ScatterCall& call, bool mean, bool include_dst) {
  if (call.E == 0 || call.N == 0 || call.K == 0) {
    return;
  }
  if (call.type == DataType::f64) {
    reduce<double>(call, mean, include_dst);
  } else {
    reduce<float>(call, mean, include_dst);
  }
}

void fill_named_rows(const ScatterCall& call, double value) {
  if (call.N == 0 || call.K == 0) {
    return;
  }
  const auto counts = index_counts(call.index, call.wide, call.E, call.N);
  for_each_scatter_part(call, [&](const ScatterWork& part) {
    if (call.type == DataType::f64) {
      fill<double>(call, part, counts, value);
    } else {
      fill<float>(call, part, counts, static_cast<float>(value));
    }
  });
}

}  // namespace cpuaccel::kernels
