// Quantised layers on kernels of our own: csrc/kernels/qgemm (Arm), dwconv and qconv.
#pragma once

#include <memory>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// Null if a kernel of ours can take the layer, else why not: by its kind, then by its weights.
const char* own_refuses(const LayerWeight& layer);
const char* own_refuses(const LayerWeight& layer, const at::Tensor& int8_values);

// `layer` outlives the kernel.
std::unique_ptr<Kernel> make_own_kernel(const LayerWeight& layer, const at::Tensor& int8_values);

}  // namespace cpuaccel::quant
