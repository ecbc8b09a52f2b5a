// A partition that oneDNN Graph runs.
#pragma once

#include "graph/build.h"

namespace cpuaccel::graph {

// Adds it. Throws dnnl::error or std::runtime_error where the library does not take it.
void add_partition(Building& building, const Program& program, const Partition& partition);

}  // namespace cpuaccel::graph
