// The ops of torch's quantized namespace that pack weights or run packed ones, as ours.
#pragma once

#include <span>

#include "ops/override.h"

namespace cpuaccel::quant {

std::span<const ops::Override> quant_overrides();

}  // namespace cpuaccel::quant
