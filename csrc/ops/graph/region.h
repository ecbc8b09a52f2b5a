// cpuaccel::graph_region and graph_region_ on the CPU, below the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cpuaccel::ops {

// As the ops' schemas say, of the inputs that are written to, as many as `written` says, and then
// the others. What the dispatcher sees to is the caller's affair.
std::vector<at::Tensor> graph_region(const std::vector<at::Tensor>& inputs,
                                     const std::vector<at::Tensor>& constants,
                                     const std::string& program, const std::string& torch_program,
                                     size_t written = 0);

}  // namespace cpuaccel::ops
