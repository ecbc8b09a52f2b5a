// Selects one of oneDNN's implementations of a problem by number.
#pragma once

#include <cstdint>
#include <limits>

#include "dnnl/api.h"

namespace cpuaccel::dnnl_layer {

// Advances `desc`, as oneDNN has just created it, to implementation `number`. 0 is oneDNN's choice,
// without the implementations that must not run on `pixels` pixels (known_bugs.h). Implementations
// are told apart by their names, because for a primitive in oneDNN's cache the iteration returns
// the same one twice. Throws dnnl::error if there are fewer implementations.
void take_implementation(dnnl::primitive_desc_base& desc, int number,
                         int64_t pixels = std::numeric_limits<int64_t>::max());

}  // namespace cpuaccel::dnnl_layer
