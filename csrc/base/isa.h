// Which instruction sets this machine has, and which of them the plugin may use.
//
// Compiled without ISA flags, so that it runs on any machine of the architecture.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpuaccel {

// Rungs of two ladders, that of x86 and that of Arm, lowest first: a machine that has one has all
// below it on its own ladder, and none of the other's.
//
// x86: avx_vnni counts as below avx512: a client core with it has no AVX-512. avx512_vbmi counts as
// above avx512_vnni: server cores with VBMI have VNNI too.
// Arm: dotprod is a Graviton2; i8mm has BF16's products as well; sve has both in vectors of any
// length, as Graviton3 and 4; sve256 is for code of that length alone, as Graviton3 runs it. (Cores
// with SVE and no dot product stay at neon.) The length is a thread's own: it is read once, and a
// program that sets others afterwards has to cap this at sve.
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

// The rung of this architecture called `name`, or nothing.
std::optional<Isa> parse_isa(std::string_view name);

// "ref, neon, ...": those of this architecture.
std::string isa_names();

// True if kernels of this rung may run: the CPU has it and max_isa() allows it.
bool isa_usable(Isa isa);

// Highest usable rung.
Isa best_isa();

// True if no product of bytes saturates here, in any library: VNNI on x86, always on Arm.
bool has_vnni();

// True if the CPU multiplies bfloat16 itself (AVX512-BF16, Arm's BF16) and max_isa() allows it.
bool has_bf16_arithmetic();

// True if it has bfloat16's matrix tiles as well (AMX): many times as fast as AVX512-BF16.
bool has_amx_arithmetic();

// True if the CPU adds and multiplies float16 itself (AVX512-FP16, Arm's FP16) and max_isa() allows
// it.
bool has_fp16_arithmetic();

// Caps the rungs in use; takes effect for what is packed or created afterwards.
void set_max_isa(Isa isa);
Isa max_isa();

// "AuthenticAMD", "GenuineIntel", "ARM" and so on; empty where the CPU does not say.
const std::string& cpu_vendor();

// "neoverse-v1" and so on; empty on x86 and for cores that have no name here.
const std::string& cpu_core();

// Names of the CPU features that matter to the kernels, for diagnostics.
std::vector<std::string> cpu_features();

}  // namespace cpuaccel
