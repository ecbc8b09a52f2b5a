// Convolutions that csrc/kernels has no family for, transposed and in three dimensions, exact on
// every CPU: the source bytes of each output pixel are copied to a row, and the rows go through
// family qconv as a linear layer. For calls that a library would get wrong (quant/pair_sums.h): the
// copies, and the products with what lies between the pixels of a transposed convolution's source,
// take longer than its kernels.
#pragma once

#include <memory>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// Null if it can take the layer's weights, else why not.
const char* rows_refuse(const LayerWeight& layer, const at::Tensor& int8_values);

// `layer` outlives the kernel.
std::unique_ptr<Kernel> make_rows_kernel(const LayerWeight& layer, const at::Tensor& int8_values);

}  // namespace cpuaccel::quant
