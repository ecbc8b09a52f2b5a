// Reads the feature words (HWCAP) that the kernel passes to every process. Containers have them
// too, whereas /proc/cpuinfo may be empty there.

#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#include <array>
#include <cstdint>

#include "base/cpu.h"

namespace cpuaccel {
namespace {

constexpr Features kNeon{Feature::neon};
constexpr Features kDotprod = kNeon | Features{Feature::dotprod, Feature::neon_fp16};
constexpr Features kI8mm = kDotprod | Features{Feature::i8mm, Feature::bf16};
constexpr Features kSve = kI8mm | Features{Feature::sve, Feature::sve_i8mm, Feature::sve_bf16};

constexpr std::array<IsaRow, 8> kIsas{{
    {Isa::ref, "ref", {}, Isa::ref},
    {Isa::neon, "neon", kNeon, Isa::neon},
    {Isa::dotprod, "dotprod", kDotprod, Isa::dotprod},
    {Isa::i8mm, "i8mm", kI8mm, Isa::i8mm},
    {Isa::sve, "sve", kSve, Isa::sve},
    {Isa::sve256, "sve256", kSve | Features{Feature::sve_of_256_bits}, Isa::sve256},
    {Isa::bf16, nullptr, kI8mm, Isa::i8mm},
    {Isa::fp16, nullptr, kI8mm | Features{Feature::fphp}, Isa::i8mm},
}};

struct FeatureRow {
  Feature feature;
  const char* name;  // for diagnostics, as Linux writes it
  int word;          // 0: AT_HWCAP, 1: AT_HWCAP2
  uint64_t bit;
};

constexpr std::array<FeatureRow, 9> kFeatures{{
    {Feature::neon, "asimd", 0, HWCAP_ASIMD},
    {Feature::fphp, "fphp", 0, HWCAP_FPHP},
    {Feature::neon_fp16, "asimdhp", 0, HWCAP_ASIMDHP},
    {Feature::dotprod, "asimddp", 0, HWCAP_ASIMDDP},
    {Feature::sve, "sve", 0, HWCAP_SVE},
    {Feature::bf16, "bf16", 1, HWCAP2_BF16},
    {Feature::i8mm, "i8mm", 1, HWCAP2_I8MM},
    {Feature::sve_bf16, "svebf16", 1, HWCAP2_SVEBF16},
    {Feature::sve_i8mm, "svei8mm", 1, HWCAP2_SVEI8MM},
}};

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

std::span<const IsaRow> isa_rows() { return kIsas; }

Features ask_features() {
  Features found;
  for (const auto& row : kFeatures) {
    const uint64_t word = getauxval(row.word == 0 ? AT_HWCAP : AT_HWCAP2);
    if ((word & row.bit) != 0) {
      found = found | Features{row.feature};
    }
  }
  return sve_bytes() == 32 ? found | Features{Feature::sve_of_256_bits} : found;
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

bool multiplies_bf16_slowly() { return false; }

bool bytes_multiply_exactly() { return true; }

std::vector<std::string> cpu_features() {
  std::vector<std::string> names;
  for (const auto& row : kFeatures) {
    if (this_cpu().has({row.feature})) {
      names.emplace_back(row.name);
    }
  }
  return names;
}

}  // namespace cpuaccel
