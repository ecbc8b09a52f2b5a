// cpuaccel in programs without Python: libcpuaccel.so has its ops and kernels, this switches them
// on.
//
// Packages of `cpuaccel.aot_compile` need the ops: link the library and call enable() before the
// first of them is loaded. A process has either this library or Python's module, never both.
#pragma once

#include <string>

namespace cpuaccel {

// Puts our kernels over torch's, but where CPUACCEL=0 is in the environment; as in Python,
// CPUACCEL_MAX_ISA caps the instructions in use, and with CPUACCEL_DETERMINISTIC=1 nothing is
// chosen by timing it. Idempotent; thread-safe. Throws std::runtime_error if they cannot run on
// this CPU, and std::invalid_argument if one of the three is none of what it may be.
__attribute__((visibility("default"))) void enable();

// Gives torch's own kernels back: ops of ours then compute by torch's.
__attribute__((visibility("default"))) void disable();

// Whether our kernels are over torch's.
__attribute__((visibility("default"))) bool is_enabled();

// Of this library: its version, the torch it was built for, the instructions that it uses here.
__attribute__((visibility("default"))) std::string version();
__attribute__((visibility("default"))) std::string torch_version();
__attribute__((visibility("default"))) std::string isa();

}  // namespace cpuaccel
