// Every op outside of the packed layers that gets a kernel of ours: one list a file, all here.
#pragma once

#include <span>

#include "ops/override.h"

namespace cpuaccel::ops {

// The lists of csrc/ops, one a source file.
std::span<const std::span<const Override>> op_overrides();

}  // namespace cpuaccel::ops
