// Quantized linear layers and 1x1 convolutions as matrix products, on csrc/kernels/qgemm.
#pragma once

#include <memory>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// Whether the engine runs layers of this shape on qgemm: on Arm. It takes all weights that fit int8
// without their zero points and whose sums fit int32.
bool is_cpuaccel_product(const LayerShape& shape);

// `layer` outlives the kernel.
std::unique_ptr<Kernel> make_cpuaccel_product(const LayerWeight& layer, const Int8Weights& values);

}  // namespace cpuaccel::quant
