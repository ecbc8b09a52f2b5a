// oneDNN's engine and streams. engine() sets oneDNN Graph's caches as cpuaccel needs them before
// the first use.
#pragma once

#include "dnnl/api.h"

namespace cpuaccel::plan {

const dnnl::engine& engine();

// The calling thread's stream.
dnnl::stream& stream();

}  // namespace cpuaccel::plan
