// The ops of torch's quantized namespace that pack weights or run packed ones, as ours.
#pragma once

#include <span>

#include "ops/override.h"

namespace cpuaccel::quant {

std::span<const ops::Override> prepack_overrides();
// Of these torch's kernels cast a packed object to a class of theirs.
std::span<const ops::Override> casting_overrides();

}  // namespace cpuaccel::quant
