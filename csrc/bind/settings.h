// Settings that Python's module sets by call and libcpuaccel.so reads from the environment.
#pragma once

#include <string>

namespace cpuaccel {

// Caps the ISA of cpuaccel's kernels, and of oneDNN unless it has already generated code: "auto" or
// the name of an ISA. Throws std::invalid_argument for any other name.
void set_max_isa_by_name(const std::string& name);

// Chooses what runs by tables only, never by timing.
void set_deterministic(bool on);

}  // namespace cpuaccel
