// Puts kernels of ours over torch's, and takes them away again.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cpuaccel::quant {

// Puts our prepack ops and __setstate__ over torch's, or gives torch's back. Idempotent.
void switch_on();
void switch_off();

// An op with its overload, and the dispatch key of the kernel: "aten::mean.dim", "QuantizedCPU".
using OverriddenKernel = std::pair<std::string, std::string>;

// Every kernel of torch that a kernel of cpuaccel replaces.
std::vector<OverriddenKernel> overridden_kernels();

// The ops our kernels stand in for, without overloads: "quantized::add", "aten::relu".
std::vector<std::string> overridden_ops();

}  // namespace cpuaccel::quant
