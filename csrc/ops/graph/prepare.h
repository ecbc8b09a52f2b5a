// Constants of a graph that are made of its weights, once.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "graph/program.h"

namespace cpuaccel::ops {

at::ScalarType scalar_type(graph::DataType type);

// The tensors of program.all_constants(): `given` are program.constants. Dense.
// Throws c10::Error where the program asks for a preparation that there is not.
std::vector<at::Tensor> prepare_constants(const graph::Program& program,
                                          const std::vector<at::Tensor>& given);

}  // namespace cpuaccel::ops
