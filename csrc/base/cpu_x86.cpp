#include <cpuid.h>

#include <array>
#include <cstring>

#include "base/cpu.h"

namespace cpuaccel {
namespace {

// Every CPU with AVX2 has F16C.
constexpr Features kAvx2{Feature::avx2, Feature::fma};
constexpr Features kAvx512 =
    kAvx2 | Features{Feature::avx512f, Feature::avx512bw, Feature::avx512vl, Feature::avx512dq};
constexpr Features kAvx512Vnni = kAvx512 | Features{Feature::avx512_vnni};

constexpr std::array<IsaRow, 9> kIsas{{
    {Isa::ref, "ref", {}, Isa::ref},
    {Isa::avx2, "avx2", kAvx2, Isa::avx2},
    {Isa::avx_vnni, "avx_vnni", kAvx2 | Features{Feature::avx_vnni}, Isa::avx_vnni},
    {Isa::avx512, "avx512", kAvx512, Isa::avx512},
    {Isa::avx512_vnni, "avx512_vnni", kAvx512Vnni, Isa::avx512_vnni},
    {Isa::avx512_vbmi, "avx512_vbmi", kAvx512Vnni | Features{Feature::avx512_vbmi},
     Isa::avx512_vbmi},
    {Isa::bf16, nullptr, kAvx512Vnni | Features{Feature::avx512_bf16}, Isa::avx512_vnni},
    {Isa::fp16, nullptr, kAvx512Vnni | Features{Feature::avx512_fp16}, Isa::avx512_vnni},
    {Isa::amx, nullptr, kAvx512Vnni | Features{Feature::avx512_bf16, Feature::amx_bf16},
     Isa::avx512_vnni},
}};

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// CPUID leaf 7; zeros if the CPU does not have the subleaf.
Registers leaf7(unsigned subleaf) {
  Registers r;
  return __get_cpuid_count(7, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) != 0 ? r : Registers{};
}

// CPUID leaf 1, EAX: family, model and stepping; 0 if there is none.
unsigned signature() {
  Registers r;
  return __get_cpuid(1, &r.eax, &r.ebx, &r.ecx, &r.edx) != 0 ? r.eax : 0;
}

// Cores by what CPUID reports, the first row that matches: from Linux' lists of models
// (arch/x86/include/asm/intel-family.h, arch/x86/kernel/cpu/amd.c).
struct CoreRow {
  const char* vendor;
  int family;
  unsigned first_model, last_model;
  const char* core;
  unsigned first_stepping = 0;
};
constexpr const char* kAmd = "AuthenticAMD";
constexpr const char* kIntel = "GenuineIntel";
constexpr std::array kCores{
    CoreRow{kAmd, 0x17, 0x00, 0x2f, "Zen"},
    CoreRow{kAmd, 0x17, 0x30, 0xff, "Zen 2"},
    CoreRow{kAmd, 0x19, 0x10, 0x1f, "Zen 4"},
    CoreRow{kAmd, 0x19, 0x60, 0x7f, "Zen 4"},
    CoreRow{kAmd, 0x19, 0xa0, 0xaf, "Zen 4"},
    CoreRow{kAmd, 0x19, 0x00, 0xff, "Zen 3"},
    CoreRow{kAmd, 0x1a, 0x00, 0xff, "Zen 5"},
    CoreRow{kIntel, 6, 0x3c, 0x3c, "Haswell"},
    CoreRow{kIntel, 6, 0x3f, 0x3f, "Haswell"},
    CoreRow{kIntel, 6, 0x45, 0x46, "Haswell"},
    CoreRow{kIntel, 6, 0x3d, 0x3d, "Broadwell"},
    CoreRow{kIntel, 6, 0x47, 0x47, "Broadwell"},
    CoreRow{kIntel, 6, 0x4f, 0x4f, "Broadwell"},
    CoreRow{kIntel, 6, 0x56, 0x56, "Broadwell"},
    CoreRow{kIntel, 6, 0x4e, 0x4e, "Skylake"},
    CoreRow{kIntel, 6, 0x5e, 0x5e, "Skylake"},
    CoreRow{kIntel, 6, 0x8e, 0x8e, "Skylake"},  // Kaby to Comet Lake have its cores
    CoreRow{kIntel, 6, 0x9e, 0x9e, "Skylake"},
    CoreRow{kIntel, 6, 0xa5, 0xa6, "Skylake"},
    CoreRow{kIntel, 6, 0x55, 0x55, "Cooper Lake", 10},
    CoreRow{kIntel, 6, 0x55, 0x55, "Cascade Lake", 5},
    CoreRow{kIntel, 6, 0x55, 0x55, "Skylake-SP"},
    CoreRow{kIntel, 6, 0x6a, 0x6c, "Ice Lake"},
    CoreRow{kIntel, 6, 0x7d, 0x7e, "Ice Lake"},
    CoreRow{kIntel, 6, 0xa7, 0xa7, "Ice Lake"},  // Rocket Lake
    CoreRow{kIntel, 6, 0x8c, 0x8d, "Tiger Lake"},
    CoreRow{kIntel, 6, 0x8f, 0x8f, "Sapphire Rapids"},
    CoreRow{kIntel, 6, 0xcf, 0xcf, "Emerald Rapids"},
    CoreRow{kIntel, 6, 0xad, 0xae, "Granite Rapids"},
    CoreRow{kIntel, 6, 0xaf, 0xaf, "Sierra Forest"},
    CoreRow{kIntel, 6, 0x97, 0x97, "Alder Lake"},
    CoreRow{kIntel, 6, 0x9a, 0x9a, "Alder Lake"},
    CoreRow{kIntel, 6, 0xbe, 0xbe, "Gracemont"},
    CoreRow{kIntel, 6, 0xb7, 0xb7, "Raptor Lake"},
    CoreRow{kIntel, 6, 0xba, 0xba, "Raptor Lake"},
    CoreRow{kIntel, 6, 0xbf, 0xbf, "Raptor Lake"},
    CoreRow{kIntel, 6, 0xaa, 0xac, "Meteor Lake"},
    CoreRow{kIntel, 6, 0xc5, 0xc6, "Arrow Lake"},
    CoreRow{kIntel, 6, 0xbd, 0xbd, "Lunar Lake"},
};

bool bit(unsigned word, int index) { return (word >> index & 1) != 0; }

struct FeatureRow {
  Feature feature;
  const char* name;  // for diagnostics; null: not listed
  bool (*ask)();
};

// __builtin_cpu_supports takes a literal, hence the macro. It looks whether the operating system
// saves the registers, which CPUID's bits alone do not tell.
#define CPUACCEL_SUPPORTED(name) name, [] { return __builtin_cpu_supports(name) != 0; }
constexpr std::array<FeatureRow, 13> kFeatures{{
    {Feature::sse42, CPUACCEL_SUPPORTED("sse4.2")},
    {Feature::avx2, CPUACCEL_SUPPORTED("avx2")},
    {Feature::fma, CPUACCEL_SUPPORTED("fma")},
    {Feature::avx512f, CPUACCEL_SUPPORTED("avx512f")},
    {Feature::avx512bw, CPUACCEL_SUPPORTED("avx512bw")},
    {Feature::avx512vl, CPUACCEL_SUPPORTED("avx512vl")},
    {Feature::avx512dq, CPUACCEL_SUPPORTED("avx512dq")},
    {Feature::avx512_vnni, CPUACCEL_SUPPORTED("avx512vnni")},
    {Feature::avx512_vbmi, CPUACCEL_SUPPORTED("avx512vbmi")},
    {Feature::avx512_bf16, CPUACCEL_SUPPORTED("avx512bf16")},
    // AVX-VNNI needs the same operating system support as AVX2.
    {Feature::avx_vnni, "avxvnni",
     [] { return bit(leaf7(1).eax, 4) && __builtin_cpu_supports("avx2") != 0; }},
    // has_amx_tiles() asks the operating system for AMX's registers, as oneDNN itself does.
    {Feature::amx_bf16, nullptr, [] { return bit(leaf7(0).edx, 22); }},
    // Only looked at together with AVX-512's bits.
    {Feature::avx512_fp16, nullptr, [] { return bit(leaf7(0).edx, 23); }},
}};
#undef CPUACCEL_SUPPORTED

}  // namespace

std::span<const IsaRow> isa_rows() { return kIsas; }

Features ask_features() {
  Features found;
  for (const auto& row : kFeatures) {
    if (row.ask()) {
      found = found | Features{row.feature};
    }
  }
  return found;
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
  const unsigned id = signature();
  const unsigned base = id >> 8 & 0xf, extended = id >> 20 & 0xff;
  return static_cast<int>(base == 0xf ? base + extended : base);
}

std::string ask_core() {
  const unsigned id = signature();
  const unsigned model = (id >> 4 & 0xf) + (id >> 12 & 0xf0), stepping = id & 0xf;
  const std::string vendor = ask_vendor();
  const int family = ask_family();
  for (const auto& row : kCores) {
    if (vendor == row.vendor && family == row.family && model >= row.first_model &&
        model <= row.last_model && stepping >= row.first_stepping) {
      return row.core;
    }
  }
  return {};
}

// The cores of Sapphire and Emerald Rapids do one multiply-add of bf16 by vdpbf16ps in the time of
// two of floats (cpuaccel_bench --family peaks, on Emerald Rapids without AMX). Cooper Lake and
// Zen 4 do two in the time of one.
bool multiplies_bf16_slowly() {
  const std::string core = ask_core();
  return core == "Sapphire Rapids" || core == "Emerald Rapids";
}

bool bytes_multiply_exactly() { return isa_usable(Isa::avx512_vnni) || isa_usable(Isa::avx_vnni); }

std::vector<std::string> cpu_features() {
  std::vector<std::string> names;
  for (const auto& row : kFeatures) {
    if (row.name != nullptr && this_cpu().has({row.feature})) {
      names.emplace_back(row.name);
    }
  }
  return names;
}

}  // namespace cpuaccel
