// CPU feature detection by architecture: implemented in cpu_x86.cpp and cpu_arm64.cpp.
#pragma once

#include <span>
#include <string>

#include "base/isa.h"

namespace cpuaccel {

struct Rung {
  Isa isa;
  const char* name;
};

// The ISAs of this architecture, lowest first, beginning with Isa::ref.
std::span<const Rung> ladder();

// These query the CPU on every call.
bool ask_cpu(Isa isa);
std::string ask_vendor();
int ask_family();  // from CPUID, base plus extended family; 0 if there is none
std::string ask_core();
bool cpu_has_bf16();
bool cpu_has_amx();
bool cpu_has_fp16();

// The ISA whose kernels use products of 16-bit floats, if the CPU has them.
Isa half_rung();

// Whether products of bytes never saturate at 16 bits: with VNNI on x86, always on Arm.
bool bytes_multiply_exactly();

}  // namespace cpuaccel
