// Finds oneDNN Graph partitions: the ops of a region that the library would run together.
#pragma once

#include <string>
#include <vector>

#include "base/api.h"
#include "plan/region.h"

namespace cpuaccel::plan {

struct FoundPartition {
  bool supported;
  std::vector<size_t> operations;  // indices of operations of the region, sorted
};

// How the library would partition all operations of `region`, whatever partitions that has now.
// Operations that it does not run are in partitions that are not supported.
CPUACCEL_API std::vector<FoundPartition> find_partitions(const Region& region);

// The operations of `partition` as one partition of the library. Throws std::runtime_error if the
// library does not take them as one.
dnnl::graph::partition as_one(const Region& region, const Partition& partition);

}  // namespace cpuaccel::plan
