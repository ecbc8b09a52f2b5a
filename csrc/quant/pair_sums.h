// Sums of two products in 16 bits. Where a library has no VNNI it multiplies by vpmaddubsw, which
// limits the sum of two neighbouring products of u8 and s8 to 16 bits. Which products are
// neighbours is the library's own affair, so what is here holds for every order.
#pragma once

#include <cstdint>

#include "quant/kernel.h"

namespace cpuaccel::quant {

// The largest source byte with which no two products of one output leave 16 bits: 128 to 255.
uint8_t largest_exact_source(const LayerWeight& layer, const at::Tensor& int8_values);

// Whether a source byte of `call` is above `limit`; its zero point, which stands outside of images,
// counts as one. Sources given as floats are judged by the largest of them.
bool sources_above(const LayerShape& shape, const QuantCall& call, uint8_t limit);

}  // namespace cpuaccel::quant
