// Quantized linear and convolution layers on the FBGEMM that torch ships.
#pragma once

#include <memory>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// Whether FBGEMM would run its direct transposed convolution, which torch calls too (kernels of two
// rows, channels in eights, no padding: the usual upsampling layer). It is correct only for the
// first image of the first call, and only with a stride of one row. Otherwise results are off by up
// to the whole range: it reads other images' column sums, and writes behind them for an empty
// batch.
bool fbgemm_gets_wrong(const LayerShape& shape);

// Whether FBGEMM multiplies with VNNI on this CPU, in all kernels except depthwise ones. It does
// not use AVX-VNNI.
bool fbgemm_has_vnni();

// Null if FBGEMM can take the layer, else the reason.
const char* fbgemm_unsupported_reason(const LayerWeight& layer);

// `layer` outlives the kernel.
std::unique_ptr<Kernel> make_fbgemm_kernel(const LayerWeight& layer, const at::Tensor& int8_values);

}  // namespace cpuaccel::quant
