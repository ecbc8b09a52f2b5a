// ISA detection: which instruction sets this machine has, and which of them the plugin may use.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpuaccel {

// The ISAs of x86 and of Arm, lowest first. A CPU that has one has all lower ones of its
// architecture, and none of the other architecture.
//
// x86: avx_vnni counts as lower than avx512, because a client core with it has no AVX-512.
// avx512_vbmi counts as higher than avx512_vnni, because server cores with VBMI also have VNNI.
// Arm: dotprod is a Graviton2; i8mm includes BF16 products; sve has both in vectors of any length,
// as on Graviton3 and 4; sve256 is for code of that length only, as Graviton3 runs it. (Cores with
// SVE but without dot product stay at neon.) The vector length is a property of the thread. It is
// read once, so a program that changes it later must cap the ISA at sve.
enum class Isa : int {
  ref = 0,
  avx2,
  avx_vnni,
  avx512,
  avx512_vnni,
  avx512_vbmi,
  neon,
  dotprod,
  i8mm,
  sve,
  sve256,
};
inline constexpr Isa kNewestIsa = Isa::sve256;
inline constexpr size_t kIsaCount = static_cast<size_t>(kNewestIsa) + 1;

// Name as users write it in CPUACCEL_MAX_ISA.
const char* isa_name(Isa isa);

// The ISA of this architecture called `name`, or nullopt.
std::optional<Isa> parse_isa(std::string_view name);

// "ref, neon, ...": the names of this architecture's ISAs.
std::string isa_names();

// True if kernels of this ISA may run: the CPU has it and max_isa() allows it.
bool isa_usable(Isa isa);

// The highest usable ISA.
Isa best_isa();

// True if no library's products of bytes saturate here: with VNNI on x86, always on Arm.
bool has_vnni();

// True if the CPU has bfloat16 products (AVX512-BF16, Arm's BF16) and max_isa() allows them.
bool has_bf16_arithmetic();

// True if it also has bfloat16 matrix tiles (AMX): many times as fast as AVX512-BF16.
bool has_amx_arithmetic();

// True if the CPU has float16 arithmetic (AVX512-FP16, Arm's FP16) and max_isa() allows it.
bool has_fp16_arithmetic();

// Caps the ISAs in use; takes effect for weights packed and objects created afterwards.
void set_max_isa(Isa isa);
Isa max_isa();

// "AuthenticAMD", "GenuineIntel", "ARM" and so on; empty if the CPU does not report it.
const std::string& cpu_vendor();

// "neoverse-v1" and so on; empty on x86 and for cores that are not listed here.
const std::string& cpu_core();

// Names of the CPU features that matter to the kernels, for diagnostics.
std::vector<std::string> cpu_features();

}  // namespace cpuaccel
