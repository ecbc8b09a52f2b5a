// Numbers among the arguments of ops.
#pragma once

#include <c10/core/Scalar.h>

namespace cpuaccel::ops {

// Whether `value` is neither complex nor symbolic.
inline bool is_real_number(const c10::Scalar& value) {
  return !value.isSymbolic() && (value.isFloatingPoint() || value.isIntegral(true));
}

}  // namespace cpuaccel::ops
