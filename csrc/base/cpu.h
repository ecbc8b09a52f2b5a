// What an architecture tells of its CPU: one source for each, cpu_x86.cpp and cpu_arm64.cpp.
#pragma once

#include <span>
#include <string>

#include "base/isa.h"

namespace cpuaccel {

struct Rung {
  Isa isa;
  const char* name;
};

// Isa::ref and this architecture's rungs, lowest first.
std::span<const Rung> ladder();

// These ask the CPU each time.
bool ask_cpu(Isa isa);
std::string ask_vendor();
int ask_family();  // CPUID's, base and extended; 0 where there is none
std::string ask_core();
bool cpu_has_bf16();
bool cpu_has_amx();
bool cpu_has_fp16();

// The rung that has the products of 16-bit floats, if the CPU has them.
Isa half_rung();

// False where a product of bytes may be limited to 16 bits, unless the CPU has better instructions.
bool bytes_multiply_exactly();

}  // namespace cpuaccel
