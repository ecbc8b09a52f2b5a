// Overrides of torch's quantized ops that pack weights (linear_prepack, conv2d_prepack, ...), and
// of fused ops that run packed weights (conv2d_add, linear_tanh, ...).
#pragma once

#include <span>

#include "torch_ao/names.h"

namespace cpuaccel::torch_ao {

std::span<const ops::Override> prepack_overrides();
// Ops whose torch kernels cast a packed object to a torch class without a check.
std::span<const ops::Override> casting_overrides();

}  // namespace cpuaccel::torch_ao
