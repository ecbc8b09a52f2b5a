#include <algorithm>

#include "base/parallel.h"
#include "kernels/round_up.h"
#include "kernels/sample/first_fault.h"
#include "kernels/sample/hop.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kBlock = 256;  // nodes per unit of work

struct Found {
  Numbers src, dst, edge;
};

template <typename Index>
bool look_at(const SampleCall& call, int64_t type, const NodeTable& table,
             const SampledNodes& nodes, int64_t i, Found& found, FirstFault& fault) {
  const SampleEdges& edges = call.edges[static_cast<size_t>(type)];
  const auto* colptr = static_cast<const Index*>(edges.colptr);
  const auto* row = static_cast<const Index*>(edges.row);
  const int64_t N = call.nodes[static_cast<size_t>(edges.src_type)];
  const int64_t node = nodes.node[i], batch = call.disjoint ? nodes.batch[i] : 0;
  const int64_t first = colptr[node], last = colptr[node + 1];
  if (first < 0 || first > last || last > edges.edges) {
    fault.add(i, {SampleFault::What::colptr, type, node, first, last});
    return false;
  }
  for (int64_t e = first; e < last; ++e) {
    const int64_t from = row[e];
    if (static_cast<uint64_t>(from) >= static_cast<uint64_t>(N)) {
      fault.add(i, {SampleFault::What::row, type, e, from, 0});
      return false;
    }
    if (const int64_t src = table.find(sample_key(batch, N, from)); src >= 0) {
      found.src.push_back(src);
      found.dst.push_back(i);
      found.edge.push_back(e);
    }
  }
  return true;
}

template <typename Index>
std::optional<SampleFault> induce(const SampleCall& call, int64_t type, const NodeTable& table,
                                  Sample& sample) {
  const auto dst_type = call.edges[static_cast<size_t>(type)].dst_type;
  const SampledNodes& nodes = sample.nodes[static_cast<size_t>(dst_type)];
  const int64_t blocks = divide_up(nodes.node.size(), kBlock);
  std::vector<Found> found(static_cast<size_t>(blocks));
  FirstFault fault;
  parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t last = std::min((block + 1) * kBlock, nodes.node.size());
      for (int64_t i = block * kBlock; i < last; ++i) {
        if (!look_at<Index>(call, type, table, nodes, i, found[static_cast<size_t>(block)],
                            fault)) {
          return;
        }
      }
    }
  });
  if (fault.get()) {
    return fault.get();
  }
  SampledEdges& out = sample.edges[static_cast<size_t>(type)];
  out = {};
  for (const Found& each : found) {
    std::copy_n(each.src.data(), each.src.size(), out.src.grow(each.src.size()));
    std::copy_n(each.dst.data(), each.dst.size(), out.dst.grow(each.dst.size()));
    std::copy_n(each.edge.data(), each.edge.size(), out.edge.grow(each.edge.size()));
  }
  return std::nullopt;
}

}  // namespace

std::optional<SampleFault> induce_edges(const SampleCall& call, int64_t type,
                                        const NodeTable& src_table, Sample& sample) {
  return call.edges[static_cast<size_t>(type)].wide
             ? induce<int64_t>(call, type, src_table, sample)
             : induce<int32_t>(call, type, src_table, sample);
}

}  // namespace cpuaccel::kernels
