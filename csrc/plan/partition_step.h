// A plan step that runs a partition by oneDNN Graph.
#pragma once

#include "plan/build.h"

namespace cpuaccel::plan {

// Adds it. Throws dnnl::error or std::runtime_error if oneDNN Graph does not support it.
void add_partition(Building& building, const Program& program, const Partition& partition);

}  // namespace cpuaccel::plan
