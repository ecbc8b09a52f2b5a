// Finds int8 calls whose products could saturate on CPUs without VNNI. There the libraries multiply
// with vpmaddubsw, which saturates the sum of two neighboring products of u8 and s8 to 16 bits.
// Which products are neighbors depends on the library, so these checks hold for every order.
#pragma once

#include <cstdint>

#include "base/api.h"
#include "quant/kernel.h"

namespace cpuaccel::quant {

// The largest src byte with which no two products of one output leave 16 bits: 128 to 255.
CPUACCEL_API uint8_t largest_exact_source(const LayerWeight& layer, const Int8Weights& values);

// Whether a src byte of `call` is above `limit`. The zero point, which pads images, counts as a src
// byte. Float sources are judged by their largest value.
CPUACCEL_API bool sources_above(const LayerShape& shape, const QuantCall& call, uint8_t limit);

}  // namespace cpuaccel::quant
