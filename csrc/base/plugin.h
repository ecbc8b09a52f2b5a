// On or off: while off, objects and ops of ours hand every call to torch's own kernels.
#pragma once

namespace cpuaccel {

bool plugin_on();

// By csrc/quant/switch.cpp alone, which puts kernels of ours over torch's and takes them away.
void set_plugin_on(bool on);

}  // namespace cpuaccel
