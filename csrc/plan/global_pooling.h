// Global average pooling. If "kernel" is 0, the window is the whole image, whose sizes may vary.
#pragma once

#include "plan/region.h"

namespace cpuaccel::plan {

// Whether an op averages over whole images of any size.
bool is_global_pooling(const Operation& operation);

// Its attributes for an input of these sizes, with the window filled in.
Attributes with_window(const Operation& operation, const Sizes& src);

}  // namespace cpuaccel::plan
