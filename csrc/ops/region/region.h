// cpuaccel::graph_region and graph_region_: run a region of a compiled model on the CPU, below the
// dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cpuaccel::ops {

// Arguments and results are those of the ops' schemas. The first `written` inputs are written to,
// the others are read. The caller does what the dispatcher would do.
std::vector<at::Tensor> graph_region(const std::vector<at::Tensor>& inputs,
                                     const std::vector<at::Tensor>& constants,
                                     const std::string& program, const std::string& torch_program,
                                     size_t written = 0);

}  // namespace cpuaccel::ops
