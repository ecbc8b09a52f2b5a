// The ranges of a profiler around calls of kernels. The engine has no profiler: a front end sets
// one.
#pragma once

#include <functional>

#include "base/api.h"

namespace cpuaccel::quant {

// Calls `run` inside a range with this name, which is never destroyed.
using KernelRange = void (*)(const char* name, const std::function<void()>& run);

// Until one is set, calls have no range.
CPUACCEL_API void set_kernel_range(KernelRange range);
KernelRange kernel_range();

}  // namespace cpuaccel::quant
