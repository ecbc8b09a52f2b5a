// Family sample: some of the neighbours of some nodes, some of theirs, and so on.
//
// Nodes and edges have types; a plain graph has one of each. The edges of type t that end in node v
// are e in [colptr[v], colptr[v + 1]), and begin in row[e]. The seeds are the first nodes of the
// sample. In hop h, each node that is new (a seed, or found in hop h - 1) gets, for each type of
// edges that end in nodes of its type,
//
//   fan_out[h] of these edges, all if there are not more or fan_out[h] is -1, each at most once;
//   or, if `replace`, fan_out[h] draws from them
//
// all with the same probability, and the nodes where they begin join the sample unless they are in
// it. If `disjoint`, each seed has a sample of its own. If `induced`, the edges are in the end all
// those of the graph between nodes of the sample.
//
// The result is a function of the arguments alone, `seed` among them, not of how many threads there
// are. Bound: for each edge, a random read of row and one of a table of the sample's nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/sample/numbers.h"

namespace cpuaccel::kernels {

struct SampleEdges {
  int64_t src_type = 0, dst_type = 0;
  int64_t edges = 0;
  const void* colptr = nullptr;      // 1 more than nodes of dst_type
  const void* row = nullptr;         // edges
  bool wide = true;                  // both are int64, else int32
  std::span<const int64_t> fan_out;  // of each hop, -1 or more
};

struct SampleSeeds {
  int64_t type = 0;
  std::span<const int64_t> nodes;
};

struct SampleCall {
  std::span<const int64_t> nodes;  // of each type of nodes: how many
  std::span<const SampleEdges> edges;
  std::span<const SampleSeeds> seeds;  // of a type once
  int64_t hops = 0;
  uint64_t seed = 0;
  bool replace = false, disjoint = false, induced = false;
};

struct SampledNodes {
  Numbers node;                 // seeds, repeated ones too, then each hop's
  Numbers batch;                // which seed it belongs to, over all types; if disjoint
  std::vector<int64_t> of_hop;  // how many: seeds, hop 0, hop 1, ...
};

struct SampledEdges {
  Numbers src, dst;  // places in the SampledNodes of its types
  Numbers edge;
  std::vector<int64_t> of_hop;  // empty if induced
};

struct Sample {
  std::vector<SampledNodes> nodes;
  std::vector<SampledEdges> edges;
};

struct SampleFault {
  enum class What {
    colptr,  // [value, other] at node `place` does not ascend or leaves the edges
    row,     // value at edge `place` is no node
    seed,    // value at seed `place` is no node
    keys,    // as many nodes times seeds do not fit 63 bits
  } what;
  int64_t type = 0;  // of edges, for `seed` and `keys` of nodes
  int64_t place = 0;
  int64_t value = 0, other = 0;
};

// All indices that are used are checked; after a fault `sample` means nothing.
std::optional<SampleFault> neighbor_sample(const SampleCall& call, Sample& sample);

}  // namespace cpuaccel::kernels
