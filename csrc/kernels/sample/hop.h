// One hop of neighbor sampling for one edge type, and the edges of induced subgraphs.
#pragma once

#include <optional>

#include "kernels/sample/node_table.h"
#include "kernels/sample/sample.h"

namespace cpuaccel::kernels {

// Buffers that are reused from hop to hop.
struct SampleScratch {
  Numbers starts, degrees, offsets, keys, firsts;
  size_t bytes() const {
    return starts.bytes() + degrees.bytes() + offsets.bytes() + keys.bytes() + firsts.bytes();
  }
};

// Nodes of the sample whose neighbors are sampled: [begin, end).
struct Frontier {
  int64_t begin = 0, end = 0;
};

// Key of a node in the sample of seed `batch`; `nodes` is the number of nodes of its type.
inline int64_t sample_key(int64_t batch, int64_t nodes, int64_t node) {
  return batch * nodes + node;
}

// Adds edges of type `type`, and the nodes where they begin, to the sample.
std::optional<SampleFault> sample_hop(const SampleCall& call, int64_t type, int64_t fan_out,
                                      Frontier frontier, NodeTable& src_table,
                                      SampleScratch& scratch, Sample& sample);

// Replaces the sample's edges of type `type` by all edges of the graph between nodes of the sample.
std::optional<SampleFault> induce_edges(const SampleCall& call, int64_t type,
                                        const NodeTable& src_table, Sample& sample);

}  // namespace cpuaccel::kernels
