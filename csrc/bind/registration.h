// Switches cpuaccel on and off: registers its kernels over torch's, or restores torch's.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cpuaccel {

// Registers cpuaccel's kernels and __setstate__ over torch's, or restores torch's. Idempotent.
void register_overrides();
void unregister_overrides();

// An op with its overload, and the dispatch key of the kernel: "aten::mean.dim", "QuantizedCPU".
using OverriddenKernel = std::pair<std::string, std::string>;

// All torch kernels that cpuaccel's kernels override.
std::vector<OverriddenKernel> overridden_kernels();

// The names of their ops, without overloads: "quantized::add", "aten::relu".
std::vector<std::string> overridden_ops();

}  // namespace cpuaccel
