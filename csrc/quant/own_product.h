// Linear layers and convolutions of one pixel as products: csrc/kernels/qgemm.
#pragma once

#include <memory>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// Whether the family is the one for layers of this shape, on this architecture. It takes all
// weights that are int8 less their zero points, and whose sums fit int32.
bool is_own_product(const LayerShape& shape);

// `layer` outlives the kernel.
std::unique_ptr<Kernel> make_own_product(const LayerWeight& layer, const at::Tensor& int8_values);

}  // namespace cpuaccel::quant
