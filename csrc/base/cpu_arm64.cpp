// Reads the feature words (HWCAP) that the kernel passes to every process. Containers have them
// too, whereas /proc/cpuinfo may be empty there.

#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "base/cpu.h"

namespace cpuaccel {
namespace {

constexpr std::array<Rung, 6> kLadder{{
    {Isa::ref, "ref"},
    {Isa::neon, "neon"},
    {Isa::dotprod, "dotprod"},
    {Isa::i8mm, "i8mm"},
    {Isa::sve, "sve"},
    {Isa::sve256, "sve256"},
}};

struct Feature {
  const char* name;
  int word;  // 0: AT_HWCAP, 1: AT_HWCAP2
  uint64_t bit;
};

constexpr std::array<Feature, 9> kFeatures{{
    {"asimd", 0, HWCAP_ASIMD},
    {"fphp", 0, HWCAP_FPHP},
    {"asimdhp", 0, HWCAP_ASIMDHP},
    {"asimddp", 0, HWCAP_ASIMDDP},
    {"sve", 0, HWCAP_SVE},
    {"bf16", 1, HWCAP2_BF16},
    {"i8mm", 1, HWCAP2_I8MM},
    {"svebf16", 1, HWCAP2_SVEBF16},
    {"svei8mm", 1, HWCAP2_SVEI8MM},
}};

bool has(const Feature& feature) {
  const uint64_t word = getauxval(feature.word == 0 ? AT_HWCAP : AT_HWCAP2);
  return (word & feature.bit) != 0;
}

template <typename... Names>
bool has_all(Names... names) {
  const auto one = [](std::string_view name) {
    for (const auto& feature : kFeatures) {
      if (name == feature.name) {
        return has(feature);
      }
    }
    return false;
  };
  return (one(names) && ...);
}

// Length of this thread's SVE vectors.
int sve_bytes() { return prctl(PR_SVE_GET_VL) & PR_SVE_VL_LEN_MASK; }

// The core's identity (MIDR_EL1) if the kernel emulates reading it (HWCAP_CPUID), else 0.
uint64_t midr() {
  if ((getauxval(AT_HWCAP) & HWCAP_CPUID) == 0) {
    return 0;
  }
  uint64_t value = 0;
  asm("mrs %0, MIDR_EL1" : "=r"(value));
  return value;
}

struct Core {
  uint64_t part;
  const char* name;
};

// Part numbers of Arm cores (implementer 0x41).
constexpr std::array<Core, 5> kCores{{
    {0xd0c, "neoverse-n1"},
    {0xd40, "neoverse-v1"},
    {0xd49, "neoverse-n2"},
    {0xd4f, "neoverse-v2"},
    {0xd84, "neoverse-v3"},
}};
constexpr uint64_t kArm = 0x41;

}  // namespace

std::span<const Rung> ladder() { return kLadder; }

bool ask_cpu(Isa isa) {
  switch (isa) {
    case Isa::ref:
      return true;
    case Isa::neon:
      return has_all("asimd");
    case Isa::dotprod:
      return has_all("asimd", "asimddp", "asimdhp");
    case Isa::i8mm:
      return ask_cpu(Isa::dotprod) && has_all("i8mm", "bf16");
    case Isa::sve:
      return ask_cpu(Isa::i8mm) && has_all("sve", "svei8mm", "svebf16");
    case Isa::sve256:
      return ask_cpu(Isa::sve) && sve_bytes() == 32;
    case Isa::avx2:
    case Isa::avx_vnni:
    case Isa::avx512:
    case Isa::avx512_vnni:
    case Isa::avx512_vbmi:
      break;
  }
  return false;
}

std::string ask_vendor() { return midr() >> 24 == kArm ? "ARM" : ""; }

int ask_family() { return 0; }

std::string ask_core() {
  const uint64_t id = midr();
  for (const auto& [part, name] : kCores) {
    if (id >> 24 == kArm && (id >> 4 & 0xfff) == part) {
      return name;
    }
  }
  return {};
}

bool cpu_has_bf16() { return has_all("bf16"); }
bool cpu_has_amx() { return false; }
bool cpu_has_fp16() { return has_all("fphp", "asimdhp"); }

Isa half_rung() { return Isa::i8mm; }

bool bytes_multiply_exactly() { return true; }

std::vector<std::string> cpu_features() {
  std::vector<std::string> names;
  for (const auto& feature : kFeatures) {
    if (has(feature)) {
      names.emplace_back(feature.name);
    }
  }
  return names;
}

}  // namespace cpuaccel
