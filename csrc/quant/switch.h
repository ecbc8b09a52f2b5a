// On or off: while off, objects of ours hand every call to torch's own kernels.
#pragma once

#include <string>
#include <vector>

namespace cpuaccel::quant {

bool plugin_on();

// Puts our prepack ops and __setstate__ over torch's, or gives torch's back. Idempotent.
void switch_on();
void switch_off();

// The ops our kernels stand in for, without overloads: "quantized::add", "aten::relu".
std::vector<std::string> overridden_ops();

}  // namespace cpuaccel::quant
