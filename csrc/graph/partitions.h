// What oneDNN Graph would run together.
#pragma once

#include <string>
#include <vector>

#include "graph/program.h"

namespace cpuaccel::graph {

struct FoundPartition {
  bool supported;
  std::vector<size_t> operations;  // by their places in the program, in order
};

// How the library would cut all operations of `program`, whatever partitions that has.
// What it refuses is a partition that is not supported.
std::vector<FoundPartition> find_partitions(const Program& program);

// The operations of `partition` as one of the library's.
// Throws std::runtime_error if it does not take them as one.
dnnl::graph::partition as_one(const Program& program, const Partition& partition);

}  // namespace cpuaccel::graph
