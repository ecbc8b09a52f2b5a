// All torch ops that cpuaccel overrides, except for those of packed layers: one list per source
// file.
#pragma once

#include <span>

#include "ops/override.h"

namespace cpuaccel::ops {

// The override lists of csrc/ops.
std::span<const std::span<const Override>> op_overrides();

}  // namespace cpuaccel::ops
