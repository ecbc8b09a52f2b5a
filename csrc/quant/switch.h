// Puts kernels of ours over torch's, and takes them away again.
#pragma once

#include <string>
#include <vector>

namespace cpuaccel::quant {

// Puts our prepack ops and __setstate__ over torch's, or gives torch's back. Idempotent.
void switch_on();
void switch_off();

// The ops our kernels stand in for, without overloads: "quantized::add", "aten::relu".
std::vector<std::string> overridden_ops();

}  // namespace cpuaccel::quant
