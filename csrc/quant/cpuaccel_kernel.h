// Quantized layers on cpuaccel's kernels: csrc/kernels/qgemm (Arm), dwconv and qconv.
#pragma once

#include <memory>

#include "base/api.h"
#include "quant/kernel.h"

namespace cpuaccel::quant {

// Null if a cpuaccel kernel can take the layer, else the reason: judged by its shape, then by its
// weights.
CPUACCEL_API const char* cpuaccel_unsupported_reason(const LayerWeight& layer);
CPUACCEL_API const char* cpuaccel_unsupported_reason(const LayerWeight& layer,
                                                     const Int8Weights& values);

// Null if a kernel that is exact on every CPU can take the layer, else the reason. These are the
// kernels above and, for shapes that no family covers, quant/rows_kernel.h.
const char* exact_unsupported_reason(const LayerWeight& layer, const Int8Weights& values);
// `layer` outlives the kernel.
std::unique_ptr<Kernel> make_exact_kernel(const LayerWeight& layer, const Int8Weights& values);

// `layer` outlives the kernel.
std::unique_ptr<Kernel> make_cpuaccel_kernel(const LayerWeight& layer, const Int8Weights& values);

}  // namespace cpuaccel::quant
