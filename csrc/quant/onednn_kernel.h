// Quantized layers on oneDNN: convolution, transposed convolution and linear.
#pragma once

#include <memory>

#include "base/api.h"
#include "quant/kernel.h"

namespace cpuaccel::quant {

// Whether oneDNN multiplies with VNNI on this CPU. oneDNN has an ISA limit of its own.
CPUACCEL_API bool onednn_has_vnni();

// Null if oneDNN can take the layer, else the reason.
CPUACCEL_API const char* onednn_unsupported_reason(const LayerWeight& layer);

// `layer` outlives the kernel. The kernel keeps its plain weights until the first call packs them.
std::unique_ptr<Kernel> make_onednn_kernel(const LayerWeight& layer, const Int8Weights& values);

}  // namespace cpuaccel::quant
