// Quantised layers on torch's FBGEMM.
#pragma once

#include <memory>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// FBGEMM would take its direct transposed convolution (kernels of two rows, channels in eights, no
// padding: the usual upsampling layer), which torch calls too. It is right for the first image of
// the first call alone, and only with a stride of one row; else it is off by the whole range, reads
// other images' column sums, and writes behind them for an empty batch.
bool fbgemm_gets_wrong(const LayerShape& shape);

// Whether FBGEMM multiplies by VNNI here, in all kernels but those of depthwise layers. It has none
// for AVX-VNNI.
bool fbgemm_has_vnni();

// Null if FBGEMM can take the layer, else why not.
const char* fbgemm_refuses(const LayerWeight& layer);

// `layer` outlives the kernel.
std::unique_ptr<Kernel> make_fbgemm_kernel(const LayerWeight& layer, const at::Tensor& int8_values);

}  // namespace cpuaccel::quant
