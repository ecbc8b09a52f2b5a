// cpuaccel::graph_region on the CPU, below the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace cpuaccel::ops {

// As the op's schema says. What the dispatcher sees to is the caller's affair.
std::vector<at::Tensor> graph_region(const std::vector<at::Tensor>& inputs,
                                     const std::vector<at::Tensor>& constants,
                                     const std::string& program, const std::string& torch_program);

}  // namespace cpuaccel::ops
