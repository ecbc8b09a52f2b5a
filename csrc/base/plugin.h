// The plugin's global switch. While it is off, cpuaccel's objects and ops pass every call to
// torch's own kernels.
#pragma once

#include "base/api.h"

namespace cpuaccel {

CPUACCEL_API bool plugin_on();

// Only called by csrc/bind/registration.cpp, which registers cpuaccel's kernels over torch's and
// removes them.
CPUACCEL_API void set_plugin_on(bool on);

}  // namespace cpuaccel
