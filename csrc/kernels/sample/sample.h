// Family sample: neighbor sampling in graphs over several hops, with node and edge types.
//
// A plain graph has one type of nodes and one of edges. The edges of type t that end in node v are
// e in [colptr[v], colptr[v + 1]), and they begin in row[e]. The seeds are the first nodes of the
// sample. In hop h, each new node (a seed, or found in hop h - 1) gets, for each type of edges that
// end in nodes of its type,
//
//   fan_out[h] of these edges, each at most once; all of them if there are not more or if
//   fan_out[h] is -1; or, if `replace`, fan_out[h] draws from them
//
// with equal probability. The nodes where they begin join the sample unless they are in it. If
// `disjoint`, each seed has its own sample. If `induced`, the edges of the result are all edges of
// the graph between nodes of the sample.
//
// The result depends only on the arguments, including `seed`, and not on the number of threads.
// Bound: for each edge, one random read of row and one of a table of the sample's nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/api.h"
#include "kernels/sample/numbers.h"

namespace cpuaccel::kernels {

struct SampleEdges {
  int64_t src_type = 0, dst_type = 0;
  int64_t edges = 0;
  const void* colptr = nullptr;      // nodes of dst_type + 1
  const void* row = nullptr;         // edges
  bool wide = true;                  // both are int64, else int32
  std::span<const int64_t> fan_out;  // per hop, -1 or more
};

struct SampleSeeds {
  int64_t type = 0;
  std::span<const int64_t> nodes;
};

struct SampleCall {
  std::span<const int64_t> nodes;  // number of nodes per type
  std::span<const SampleEdges> edges;
  std::span<const SampleSeeds> seeds;  // each type at most once
  int64_t hops = 0;
  uint64_t seed = 0;
  bool replace = false, disjoint = false, induced = false;
};

struct SampledNodes {
  Numbers node;                 // seeds, including repeated ones, then each hop's
  Numbers batch;                // if disjoint: the index of its seed, over all types
  std::vector<int64_t> of_hop;  // counts: seeds, hop 0, hop 1, ...
};

struct SampledEdges {
  Numbers src, dst;  // places in the SampledNodes of their types
  Numbers edge;
  std::vector<int64_t> of_hop;  // empty if induced
};

struct Sample {
  std::vector<SampledNodes> nodes;
  std::vector<SampledEdges> edges;
};

struct SampleFault {
  enum class What {
    colptr,  // [value, other] at node `place` does not ascend or is out of range
    row,     // value at edge `place` is not a node
    seed,    // value at seed `place` is not a node
    keys,    // nodes times seeds do not fit into 63 bits
  } what;
  int64_t type = 0;  // edge type; node type for `seed` and `keys`
  int64_t place = 0;
  int64_t value = 0, other = 0;
};

// Checks all indices that it uses; after a fault the contents of `sample` are unspecified.
CPUACCEL_API std::optional<SampleFault> neighbor_sample(const SampleCall& call, Sample& sample);

}  // namespace cpuaccel::kernels
