#include "kernels/csr/edges.h"

#include <atomic>

#include "base/parallel.h"
#include "kernels/csr/counting.h"

namespace cpuaccel::kernels {
namespace {

template <typename In, typename Out>
bool spread(const EdgeList& edges, Counts<Out>& counts, const EdgeRows& rows) {
  const auto* src = static_cast<const In*>(edges.src);
  const auto* dst = static_cast<const In*>(edges.dst);
  auto* col = static_cast<Out*>(rows.col);
  auto* perm = static_cast<Out*>(rows.perm);
  std::atomic<bool> good{true};
  parallel_for(0, counts.ranges, 1, [&](int64_t first, int64_t last) {
    for (int64_t range = first; range < last; ++range) {
      Out* next = counts.counts(range);
      for (int64_t e = counts.begin(range); e < counts.begin(range + 1); ++e) {
        if (static_cast<uint64_t>(src[e]) >= static_cast<uint64_t>(edges.N)) {
          good.store(false, std::memory_order_relaxed);
          return;
        }
        const Out at = next[dst[e]]++;
        col[at] = static_cast<Out>(src[e]);
        perm[at] = static_cast<Out>(e);
      }
    }
  });
  return good;
}

template <typename In, typename Out>
EdgeFault sort(const EdgeList& edges, const EdgeRows& rows) {
  Counts<Out> counts(edges.E, edges.M, parallel_threads());
  if (!count(static_cast<const In*>(edges.dst), counts)) {
    return EdgeFault::dst;
  }
  place(counts, static_cast<Out*>(rows.crow));
  return spread<In>(edges, counts, rows) ? EdgeFault::none : EdgeFault::src;
}

}  // namespace

EdgeFault edge_rows(const EdgeList& edges, const EdgeRows& rows) {
  if (rows.wide) {
    return edges.wide ? sort<int64_t, int64_t>(edges, rows) : sort<int32_t, int64_t>(edges, rows);
  }
  return edges.wide ? sort<int64_t, int32_t>(edges, rows) : sort<int32_t, int32_t>(edges, rows);
}

}  // namespace cpuaccel::kernels
