#include <cpuid.h>

#include <array>
#include <cstring>

#include "base/cpu.h"

namespace cpuaccel {
namespace {

constexpr std::array<Rung, 6> kLadder{{
    {Isa::ref, "ref"},
    {Isa::avx2, "avx2"},
    {Isa::avx_vnni, "avx_vnni"},
    {Isa::avx512, "avx512"},
    {Isa::avx512_vnni, "avx512_vnni"},
    {Isa::avx512_vbmi, "avx512_vbmi"},
}};

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// CPUID leaf 7; zeros if the CPU does not have the subleaf.
Registers leaf7(unsigned subleaf) {
  Registers r;
  return __get_cpuid_count(7, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) != 0 ? r : Registers{};
}

bool bit(unsigned word, int index) { return (word >> index & 1) != 0; }

// AVX-VNNI needs the same operating system support as AVX2.
bool cpu_has_avx_vnni() { return bit(leaf7(1).eax, 4) && __builtin_cpu_supports("avx2"); }
}  // namespace

std::span<const Rung> ladder() { return kLadder; }

bool cpu_has_bf16() { return bit(leaf7(1).eax, 5); }
// oneDNN itself asks the operating system for AMX's registers.
bool cpu_has_amx() { return bit(leaf7(0).edx, 22); }
bool cpu_has_fp16() { return bit(leaf7(0).edx, 23); }

bool ask_cpu(Isa isa) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  switch (isa) {
    case Isa::ref:
      return true;
    case Isa::avx2:
      return avx2;
    case Isa::avx_vnni:
      return avx2 && cpu_has_avx_vnni();
    case Isa::avx512:
      return avx512;
    case Isa::avx512_vnni:
      return avx512 && __builtin_cpu_supports("avx512vnni");
    case Isa::avx512_vbmi:
      return avx512 && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
    case Isa::neon:
    case Isa::dotprod:
    case Isa::i8mm:
    case Isa::sve:
    case Isa::sve256:
      break;
  }
  return false;
}
// CPUID leaf 0: twelve letters in EBX, EDX, ECX.
std::string ask_vendor() {
  std::array<unsigned, 3> letters{};
  unsigned newest = 0;
  if (__get_cpuid(0, &newest, &letters[0], &letters[2], &letters[1]) == 0) {
    return {};
  }
  std::string vendor(sizeof(letters), '\0');
  std::memcpy(vendor.data(), letters.data(), sizeof(letters));
  return vendor;
}

// CPUID leaf 1: the extended family is added if the base family is 0xf.
int ask_family() {
  Registers r;
  if (__get_cpuid(1, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) {
    return 0;
  }
  const unsigned base = r.eax >> 8 & 0xf, extended = r.eax >> 20 & 0xff;
  return static_cast<int>(base == 0xf ? base + extended : base);
}

std::string ask_core() { return {}; }

Isa half_rung() { return Isa::avx512_vnni; }

bool bytes_multiply_exactly() { return isa_usable(Isa::avx512_vnni) || isa_usable(Isa::avx_vnni); }

std::vector<std::string> cpu_features() {
  std::vector<std::string> features;
  // __builtin_cpu_supports takes a literal, hence the macro.
#define CPUACCEL_FEATURE(name)        \
  if (__builtin_cpu_supports(name)) { \
    features.emplace_back(name);      \
  }
  CPUACCEL_FEATURE("sse4.2")
  CPUACCEL_FEATURE("avx2")
  CPUACCEL_FEATURE("fma")
  CPUACCEL_FEATURE("avx512f")
  CPUACCEL_FEATURE("avx512bw")
  CPUACCEL_FEATURE("avx512vl")
  CPUACCEL_FEATURE("avx512dq")
  CPUACCEL_FEATURE("avx512vnni")
  CPUACCEL_FEATURE("avx512vbmi")
  CPUACCEL_FEATURE("avx512bf16")
#undef CPUACCEL_FEATURE
  if (cpu_has_avx_vnni()) {
    features.emplace_back("avxvnni");
  }
  return features;
}

}  // namespace cpuaccel
