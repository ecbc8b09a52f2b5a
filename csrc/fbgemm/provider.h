// The provider FBGEMM: quantized linear and convolution layers on the FBGEMM that torch ships.
#pragma once

#include "quant/weight.h"

namespace cpuaccel::fbgemm_provider {

// Whether FBGEMM would run its direct transposed convolution, which torch calls too (kernels of two
// rows, channels in eights, no padding: the usual upsampling layer). It is correct only for the
// first image of the first call, and only with a stride of one row. Otherwise results are off by up
// to the whole range: it reads other images' column sums, and writes behind them for an empty
// batch.
bool gets_wrong(const quant::LayerShape& shape);

// Whether FBGEMM multiplies with VNNI on this CPU, in all kernels except depthwise ones. It does
// not use AVX-VNNI.
bool has_fbgemm_vnni();

}  // namespace cpuaccel::fbgemm_provider
