// Where a zero point is added when a float becomes a byte: before rounding (torch up to 2.13) or
// after it (from 2.14 on). If the zero point is odd, halves go to the other neighbor.
//
// The one place that decides it. Kernels of floats and of averages ask `zero_point_added`; the code
// that knows torch's version sets it, once, before any kernel runs. Requantization of int32 sums,
// binary ops and tables add the zero point after rounding in every version of torch, and do not
// ask.
#pragma once

#include <cstdint>

#include "base/api.h"

namespace cpuaccel::kernels {

enum class ZeroPointAdded : uint8_t { before_rounding, after_rounding };

CPUACCEL_API ZeroPointAdded zero_point_added();
CPUACCEL_API void set_zero_point_added(ZeroPointAdded where);

}  // namespace cpuaccel::kernels
