// oneDNN's implementations of one problem, by number.
#pragma once

#include <cstdint>
#include <limits>

#include "dnnl/api.h"

namespace cpuaccel::dnnl_layer {

// Takes `desc`, as oneDNN has just made it, to the implementation of that number: 0 is oneDNN's
// choice, without those that must not run on so many pixels (faults.h). They are told apart by
// their names: of a primitive that oneDNN has in its cache, what lists them returns the same one
// twice. Throws dnnl::error where there are not so many.
void take_implementation(dnnl::primitive_desc_base& desc, int number,
                         int64_t pixels = std::numeric_limits<int64_t>::max());

}  // namespace cpuaccel::dnnl_layer
