#include "kernels/sample/hop.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/sample/choose.h"
#include "kernels/sample/first_fault.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kNodeGrain = 1 << 11;  // nodes
constexpr int64_t kEdgeGrain = 1 << 11;
constexpr int64_t kAhead = 16;      // nodes whose colptr is prefetched
constexpr int64_t kTogether = 512;  // edges whose rows are prefetched before they are read

template <typename Index>
class Hop {
 public:
  Hop(const SampleCall& call, int64_t type, int64_t fan_out, Frontier frontier,
      SampleScratch& scratch, Sample& sample)
      : call_(call),
        edges_(call.edges[static_cast<size_t>(type)]),
        type_(type),
        fan_out_(fan_out),
        frontier_(frontier),
        dst_(sample.nodes[static_cast<size_t>(edges_.dst_type)]),
        out_(sample.edges[static_cast<size_t>(type)]),
        scratch_(scratch) {}

  // Computes how many edges each node gets. offsets: the prefix sums.
  void count() {
    const int64_t nodes = frontier_.end - frontier_.begin;
    int64_t* starts = fresh(scratch_.starts, nodes);
    int64_t* degrees = fresh(scratch_.degrees, nodes);
    int64_t* offsets = fresh(scratch_.offsets, nodes + 1);
    parallel_for(0, nodes, kNodeGrain, [&](int64_t begin, int64_t end) {
      count_some(begin, end, starts, degrees, offsets + 1);
    });
    offsets[0] = 0;
    for (int64_t i = 0; i < nodes; ++i) {
      offsets[i + 1] += offsets[i];
    }
  }

  // Chooses the edges. keys: those of the nodes where the edges begin.
  void choose() {
    const int64_t nodes = frontier_.end - frontier_.begin, total = scratch_.offsets[nodes];
    int64_t* keys = fresh(scratch_.keys, total);
    int64_t* edge = out_.edge.grow(total);
    int64_t* dst = out_.dst.grow(total);
    out_.src.grow(total);
    parallel_for(0, total, kEdgeGrain,
                 [&](int64_t begin, int64_t end) { choose_some_of(begin, end, keys, edge, dst); });
  }

  const std::optional<SampleFault>& fault() const { return fault_.get(); }

 private:
  static int64_t* fresh(Numbers& numbers, int64_t count) {
    numbers.clear();
    return numbers.grow(count);
  }

  int64_t count_of(int64_t degree) const {
    if (fan_out_ < 0) {
      return degree;
    }
    return call_.replace ? (degree > 0 ? fan_out_ : 0) : std::min(fan_out_, degree);
  }

  void count_some(int64_t begin, int64_t end, int64_t* starts, int64_t* degrees, int64_t* counts) {
    const auto* colptr = static_cast<const Index*>(edges_.colptr);
    const int64_t* node = dst_.node.data() + frontier_.begin;
    for (int64_t i = begin; i < end; ++i) {
      __builtin_prefetch(colptr + node[std::min(i + kAhead, end - 1)]);
      const int64_t first = colptr[node[i]], last = colptr[node[i] + 1];
      if (first < 0 || first > last || last > edges_.edges) [[unlikely]] {
        fault_.add(i, {SampleFault::What::colptr, type_, node[i], first, last});
        return;
      }
      starts[i] = first;
      degrees[i] = last - first;
      counts[i] = count_of(last - first);
    }
  }

  // Handles the nodes whose first edge is in [begin, end).
  void choose_some_of(int64_t begin, int64_t end, int64_t* keys, int64_t* edge, int64_t* dst) {
    const auto* row = static_cast<const Index*>(edges_.row);
    const int64_t* offsets = scratch_.offsets.data();
    const int64_t nodes = frontier_.end - frontier_.begin;
    int64_t i = std::lower_bound(offsets, offsets + nodes, begin) - offsets;
    std::vector<uint64_t> taken;
    while (i < nodes && offsets[i] < end) {
      const int64_t first = offsets[i];
      for (; i < nodes && offsets[i] < std::min(end, first + kTogether); ++i) {
        choose_for(i, edge, dst, row, taken);
      }
      if (!read_rows(first, offsets[i], keys, edge, dst, row)) {
        return;
      }
    }
  }

  void choose_for(int64_t i, int64_t* edge, int64_t* dst, const Index* row,
                  std::vector<uint64_t>& taken) {
    const int64_t begin = scratch_.offsets[i], end = scratch_.offsets[i + 1];
    const int64_t degree = scratch_.degrees[i], start = scratch_.starts[i];
    const RandomStream random(call_.seed, static_cast<uint64_t>(type_),
                              static_cast<uint64_t>(frontier_.begin + i));
    if (call_.replace && fan_out_ >= 0) {
      choose_any(random, degree, end - begin, edge + begin);
    } else {
      choose_some(random, degree, end - begin, edge + begin, taken);
    }
    for (int64_t e = begin; e < end; ++e) {
      edge[e] += start;
      dst[e] = frontier_.begin + i;
      __builtin_prefetch(row + edge[e]);
    }
  }

  bool read_rows(int64_t begin, int64_t end, int64_t* keys, const int64_t* edge, const int64_t* dst,
                 const Index* row) {
    const int64_t N = call_.nodes[static_cast<size_t>(edges_.src_type)];
    for (int64_t e = begin; e < end; ++e) {
      const int64_t node = row[edge[e]];
      if (static_cast<uint64_t>(node) >= static_cast<uint64_t>(N)) [[unlikely]] {
        fault_.add(e, {SampleFault::What::row, type_, edge[e], node, 0});
        return false;
      }
      keys[e] = call_.disjoint ? sample_key(dst_.batch[dst[e]], N, node) : node;
    }
    return true;
  }

  const SampleCall& call_;
  const SampleEdges& edges_;
  int64_t type_, fan_out_;
  Frontier frontier_;
  const SampledNodes& dst_;
  SampledEdges& out_;
  SampleScratch& scratch_;
  FirstFault fault_;
};

// Adds the new nodes, whose keys are at scratch.firsts, to the sample.
void add_nodes(const SampleCall& call, const SampleEdges& edges, const SampleScratch& scratch,
               const int64_t* dst, Sample& sample) {
  SampledNodes& to = sample.nodes[static_cast<size_t>(edges.src_type)];
  const int64_t N = call.nodes[static_cast<size_t>(edges.src_type)], fresh = scratch.firsts.size();
  int64_t* node = to.node.grow(fresh);
  for (int64_t i = 0; i < fresh; ++i) {
    node[i] = scratch.keys[scratch.firsts[i]];
  }
  if (!call.disjoint) {
    return;
  }
  int64_t* batch = to.batch.grow(fresh);
  // Read after the growth, because it may be the same array.
  const Numbers& batch_of = sample.nodes[static_cast<size_t>(edges.dst_type)].batch;
  for (int64_t i = 0; i < fresh; ++i) {
    batch[i] = batch_of[dst[scratch.firsts[i]]];
    node[i] -= sample_key(batch[i], N, 0);
  }
}

template <typename Index>
std::optional<SampleFault> run(const SampleCall& call, int64_t type, int64_t fan_out,
                               Frontier frontier, NodeTable& src_table, SampleScratch& scratch,
                               Sample& sample) {
  const SampleEdges& edges = call.edges[static_cast<size_t>(type)];
  SampledEdges& out = sample.edges[static_cast<size_t>(type)];
  const int64_t before = out.edge.size();
  Hop<Index> hop(call, type, fan_out, frontier, scratch, sample);
  hop.count();
  if (!hop.fault()) {
    hop.choose();
  }
  if (hop.fault()) {
    return hop.fault();
  }
  scratch.firsts.clear();
  const SampledNodes& src = sample.nodes[static_cast<size_t>(edges.src_type)];
  src_table.number(scratch.keys.data(), scratch.keys.size(), src.node.size(),
                   out.src.data() + before, scratch.firsts);
  add_nodes(call, edges, scratch, out.dst.data() + before, sample);
  return std::nullopt;
}

}  // namespace

std::optional<SampleFault> sample_hop(const SampleCall& call, int64_t type, int64_t fan_out,
                                      Frontier frontier, NodeTable& src_table,
                                      SampleScratch& scratch, Sample& sample) {
  if (fan_out == 0 || frontier.begin == frontier.end) {
    return std::nullopt;
  }
  return call.edges[static_cast<size_t>(type)].wide
             ? run<int64_t>(call, type, fan_out, frontier, src_table, scratch, sample)
             : run<int32_t>(call, type, fan_out, frontier, src_table, scratch, sample);
}

}  // namespace cpuaccel::kernels
