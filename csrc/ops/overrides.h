// All torch ops that cpuaccel overrides, except for those of packed layers: one list for each
// source file.
#pragma once

#include <span>

#include "ops/override.h"

namespace cpuaccel::ops {

// The lists that the files of csrc/ops registered.
std::span<const std::span<const Override>> op_overrides();

}  // namespace cpuaccel::ops
