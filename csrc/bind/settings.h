// Settings that Python's module sets by call and libcpuaccel.so reads from the environment.
#pragma once

#include <string>

namespace cpuaccel {

// Caps the ISA of cpuaccel's kernels, and of oneDNN unless it has already generated code: "auto" or
// the name of an ISA. Throws std::invalid_argument for any other name.
void set_max_isa_by_name(const std::string& name);

// Chooses what runs by tables only, never by timing.
void set_deterministic(bool on);

// Whether calls learn which kernel is the fastest, unless what runs is chosen by tables only.
void set_learn(bool on);

// Chooses by tables as on another CPU: vendor and core, such as "GenuineIntel Alder Lake"; "": this
// CPU.
void set_cpu(const std::string& names);

}  // namespace cpuaccel
