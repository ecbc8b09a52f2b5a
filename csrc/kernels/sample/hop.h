// A step of sampling: what the edges of one type add to a sample.
#pragma once

#include <optional>

#include "kernels/sample/node_table.h"
#include "kernels/sample/sample.h"

namespace cpuaccel::kernels {

// Memory that is kept from step to step.
struct SampleScratch {
  Numbers starts, degrees, offsets, keys, firsts;
  size_t bytes() const {
    return starts.bytes() + degrees.bytes() + offsets.bytes() + keys.bytes() + firsts.bytes();
  }
};

// Nodes of the sample that get neighbours: [begin, end).
struct Frontier {
  int64_t begin = 0, end = 0;
};

// The number of a node of the sample of seed `batch`, in a table of `nodes` nodes.
inline int64_t sample_key(int64_t batch, int64_t nodes, int64_t node) {
  return batch * nodes + node;
}

// Adds edges of type `type`, and the nodes that they begin in.
std::optional<SampleFault> sample_hop(const SampleCall& call, int64_t type, int64_t fan_out,
                                      Frontier frontier, NodeTable& src_table,
                                      SampleScratch& scratch, Sample& sample);

// All edges of type `type` between nodes of the sample, in the place of those it has.
std::optional<SampleFault> induce_edges(const SampleCall& call, int64_t type,
                                        const NodeTable& src_table, Sample& sample);

}  // namespace cpuaccel::kernels
