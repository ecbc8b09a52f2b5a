// What differs between the minor versions of torch that cpuaccel builds against, 2.13 to 2.15.
// No other header or source asks for torch's version; docs/internals/torch-versions.md has the
// list. The headers of torch_compat/ include what is not part of torch's public interface.
#pragma once

#include <torch/headeronly/version.h>

#include "kernels/zero_point.h"

#define CPUACCEL_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||           \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace cpuaccel::torch_compat {

// 2.14 uses another rounding of FBGEMM (LEGACY = false) for quantize_per_tensor and
// quantize_per_channel, for the inputs of dynamic layers, and for means and images.
#if CPUACCEL_TORCH_AT_LEAST(2, 14)
inline constexpr auto kZeroPointAdded = kernels::ZeroPointAdded::after_rounding;
#else
inline constexpr auto kZeroPointAdded = kernels::ZeroPointAdded::before_rounding;
#endif

}  // namespace cpuaccel::torch_compat
