// ISA detection: which instruction sets this machine has, and which of them the plugin may use.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"

namespace cpuaccel {

// The ISAs of x86 and of Arm. cpu_x86.cpp and cpu_arm64.cpp list the CPU features that each needs.
// Keys of the tuning cache contain the values, so existing ones are not renumbered.
//
// ref to sve256 are the names that CPUACCEL_MAX_ISA takes, lowest first: a cap allows all ISAs of
// the architecture up to it.
//
// x86: avx_vnni counts as lower than avx512, because a client core with it has no AVX-512.
// avx512_vbmi counts as higher than avx512_vnni, because server cores with VBMI also have VNNI.
// Arm: dotprod is a Graviton2; i8mm includes BF16 products; sve has both in vectors of any length,
// as on Graviton3 and 4; sve256 is for code of that length only, as Graviton3 runs it. (Cores with
// SVE but without dot product stay at neon.) The vector length is a property of the thread. It is
// read once, so a program that changes it later must cap the ISA at sve.
//
// The others have no names, because they are not in that order: some CPUs had VBMI before BF16 and
// others after it. named_isa() says which cap allows them. bf16: products of bfloat16 (AVX512-BF16,
// Arm's BF16). fp16: arithmetic of float16 (AVX512-FP16, Arm's FP16). amx: tiles of bytes and of
// bfloat16, many times as fast as AVX512-BF16.
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
  bf16,
  fp16,
  amx,
};
inline constexpr Isa kNewestIsa = Isa::sve256;  // as a cap it allows every ISA
inline constexpr size_t kIsaCount = static_cast<size_t>(Isa::amx) + 1;

// The ISA with a name that a cap must allow for `isa` to be used: `isa` itself if it has a name.
CPUACCEL_API Isa named_isa(Isa isa);

// The name of named_isa(isa) as users write it in CPUACCEL_MAX_ISA; empty for an ISA of the other
// architecture.
CPUACCEL_API const char* isa_name(Isa isa);

// The ISA of this architecture called `name`, or nullopt.
CPUACCEL_API std::optional<Isa> parse_isa(std::string_view name);

// "ref, neon, ...": the names of this architecture's ISAs.
CPUACCEL_API std::string isa_names();

// True if the CPU has all features that the ISA needs.
CPUACCEL_API bool cpu_has(Isa isa);

// True if kernels of this ISA may run: the CPU has it and max_isa() allows it. If so, the first
// call for Isa::amx asks the operating system for tiles (has_amx_tiles()).
CPUACCEL_API bool isa_usable(Isa isa);

// The highest usable ISA that has a name.
CPUACCEL_API Isa best_isa();

// True if no library's products of bytes saturate here: with VNNI on x86, always on Arm.
CPUACCEL_API bool has_vnni();

// isa_usable(Isa::bf16), on a CPU that multiplies bf16 at least as fast as f32. The others multiply
// bf16 numbers as f32, and should not be asked for BF16 fast math.
CPUACCEL_API bool has_bf16_arithmetic();
// isa_usable(Isa::fp16).
CPUACCEL_API bool has_fp16_arithmetic();

// True if the CPU has AMX and max_isa() allows it. Unlike isa_usable(Isa::amx) this does not ask
// the operating system for tiles: oneDNN, whose products this is about, asks for them itself.
CPUACCEL_API bool has_amx_arithmetic();

// Caps the ISAs in use; takes effect for weights packed and objects created afterwards.
CPUACCEL_API void set_max_isa(Isa isa);
CPUACCEL_API Isa max_isa();

// "AuthenticAMD", "GenuineIntel", "ARM" and so on; empty if the CPU does not report it.
CPUACCEL_API const std::string& cpu_vendor();

// CPUID's base plus extended family, such as 0x19 of Zen 3 and Zen 4; 0 on other architectures.
CPUACCEL_API int cpu_family();

// "neoverse-v1", "Zen 4" and so on; empty for cores that are not listed here.
CPUACCEL_API const std::string& cpu_core();

// Makes cpu_vendor() and cpu_core() return these, so that tables choose as on another CPU; "" for
// those of this CPU. For tests. What a running process has chosen already stays.
CPUACCEL_API void set_cpu_names(std::string vendor, std::string core);

// Names of the CPU features that matter to the kernels, for diagnostics.
CPUACCEL_API std::vector<std::string> cpu_features();

}  // namespace cpuaccel
