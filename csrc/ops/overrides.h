// All torch ops that cpuaccel overrides, except for those of packed layers.
#pragma once

#include <span>

#include "ops/override.h"

namespace cpuaccel::ops {

// The rows that the files of csrc/ops registered.
std::span<const Override> op_overrides();

}  // namespace cpuaccel::ops
