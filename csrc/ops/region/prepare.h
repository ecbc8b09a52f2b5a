// Derived constants of a region: made from its weights once (folded batch norms, casts, dequantized
// weights).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "plan/region.h"

namespace cpuaccel::ops {

at::ScalarType scalar_type(DataType type);

// The tensors of region.all_constants(), dense; `given` are region.constants. Throws c10::Error
// for an unknown preparation.
std::vector<at::Tensor> prepare_constants(const plan::Region& region,
                                          const std::vector<at::Tensor>& given);

}  // namespace cpuaccel::ops
