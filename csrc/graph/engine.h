// oneDNN Graph's engine and streams, and what is set before the first of them is used.
#pragma once

#include "dnnl/api.h"

namespace cpuaccel::graph {

const dnnl::engine& engine();

// The calling thread's stream.
dnnl::stream& stream();

}  // namespace cpuaccel::graph
