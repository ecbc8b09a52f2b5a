// Transposed and 3-D quantized convolutions, for which csrc/kernels has no family, exact on every
// CPU. The src bytes of each dst pixel are copied to a row, and the rows go through family qconv as
// a linear layer. Used for calls that a library would get wrong (quant/pair_sums.h). It is slower
// than the libraries' kernels, because of the copies and of the products with the gaps between the
// src pixels of a transposed convolution.
#pragma once

#include <memory>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// Null if it can take the layer's weights, else the reason.
const char* rows_unsupported_reason(const LayerWeight& layer, const Int8Weights& values);

// `layer` outlives the kernel.
std::unique_ptr<Kernel> make_rows_kernel(const LayerWeight& layer, const Int8Weights& values);

}  // namespace cpuaccel::quant
