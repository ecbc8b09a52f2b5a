// Quantised layers on oneDNN: convolution, transposed convolution and linear.
#pragma once

#include <memory>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// Whether oneDNN multiplies by VNNI here: it has limits of its own on instruction sets.
bool onednn_has_vnni();

// Null if oneDNN can take the layer, else why not.
const char* onednn_refuses(const LayerWeight& layer);

// `layer` outlives the kernel. Its plain weights are kept until the first call packs them.
std::unique_ptr<Kernel> make_onednn_kernel(const LayerWeight& layer, const at::Tensor& int8_values);

}  // namespace cpuaccel::quant
