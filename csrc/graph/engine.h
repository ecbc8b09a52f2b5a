// oneDNN's engine and streams, with what oneDNN Graph needs set before the first use.
#pragma once

#include "dnnl/api.h"

namespace cpuaccel::graph {

const dnnl::engine& engine();

// The calling thread's stream.
dnnl::stream& stream();

}  // namespace cpuaccel::graph
