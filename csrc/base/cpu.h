// CPU feature detection by architecture: implemented in cpu_x86.cpp and cpu_arm64.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/isa.h"

namespace cpuaccel {

// What a CPU reports one by one. An Isa is a set of these.
enum class Feature : uint8_t {
  // x86
  sse42,
  avx2,
  fma,
  avx_vnni,
  avx512f,
  avx512bw,
  avx512vl,
  avx512dq,
  avx512_vnni,
  avx512_vbmi,
  avx512_bf16,
  avx512_fp16,
  amx_bf16,  // and amx_int8: no CPU has only one of the two
  // Arm
  neon,
  fphp,
  neon_fp16,
  dotprod,
  i8mm,
  bf16,
  sve,
  sve_i8mm,
  sve_bf16,
  sve_of_256_bits,
};

class Features {
 public:
  constexpr Features() = default;
  constexpr Features(std::initializer_list<Feature> list) {
    for (const Feature feature : list) {
      bits_ |= uint32_t{1} << static_cast<int>(feature);
    }
  }

  constexpr Features operator|(Features other) const {
    other.bits_ |= bits_;
    return other;
  }
  constexpr bool has(Features needed) const { return (bits_ & needed.bits_) == needed.bits_; }

 private:
  uint32_t bits_ = 0;
};

struct IsaRow {
  Isa isa;
  const char* name;  // for CPUACCEL_MAX_ISA; null: see named_isa()
  Features needs;
  Isa named;  // what max_isa() must be at least; `isa` itself if it has a name
};

// The ISAs of this architecture. Those with a name come first, lowest first, from Isa::ref on.
std::span<const IsaRow> isa_rows();

// These query the CPU on every call. isa.h has functions that keep the answers.
Features ask_features();
std::string ask_vendor();
int ask_family();  // from CPUID, base plus extended family; 0 if there is none
std::string ask_core();

// The features of this CPU, queried once: in a virtual machine CPUID exits to the host, which takes
// tens of microseconds.
const Features& this_cpu();

// Whether vector instructions multiply bf16 slower than f32. It does not count AMX.
bool multiplies_bf16_slowly();

// Whether products of bytes never saturate at 16 bits: with VNNI on x86, always on Arm.
bool bytes_multiply_exactly();

}  // namespace cpuaccel
