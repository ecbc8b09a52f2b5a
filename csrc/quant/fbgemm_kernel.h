// Quantised layers on torch's FBGEMM.
#pragma once

#include <memory>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// Null if FBGEMM can take the layer, else why not.
const char* fbgemm_refuses(const LayerWeight& layer);

// `layer` outlives the kernel.
std::unique_ptr<Kernel> make_fbgemm_kernel(const LayerWeight& layer, const at::Tensor& int8_values);

}  // namespace cpuaccel::quant
