// cpuaccel for C++ programs without Python. libcpuaccel.so has its ops and kernels, and this header
// switches them on.
//
// Packages of `cpuaccel.aot_compile` need the ops: link the library and call enable() before the
// first package is loaded. A process has either this library or the Python module, never both.
#pragma once

#include <string>

namespace cpuaccel {

// Registers cpuaccel's kernels over torch's, unless CPUACCEL=0 is in the environment. As in Python,
// CPUACCEL_MAX_ISA caps the ISA, and with CPUACCEL_DETERMINISTIC=1 nothing is chosen by timing.
// Idempotent; thread-safe. Throws std::runtime_error if the CPU is not supported, and
// std::invalid_argument if one of the three variables has an invalid value.
__attribute__((visibility("default"))) void enable();

// Restores torch's own kernels. cpuaccel's ops then compute with torch's.
__attribute__((visibility("default"))) void disable();

// Whether cpuaccel's kernels are registered.
__attribute__((visibility("default"))) bool is_enabled();

// The library's version, the torch version it was built for, and the best ISA in use on this CPU.
__attribute__((visibility("default"))) std::string version();
__attribute__((visibility("default"))) std::string torch_version();
__attribute__((visibility("default"))) std::string isa();

}  // namespace cpuaccel
