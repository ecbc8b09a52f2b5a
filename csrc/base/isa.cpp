#include "base/isa.h"

#include <array>
#include <atomic>

#include "base/cpu.h"

namespace cpuaccel {
namespace {

std::atomic<Isa> g_max_isa{kNewestIsa};

// Queried once: in a virtual machine CPUID exits to the host, which takes tens of microseconds.
bool cpu_has(Isa isa) {
  static const auto answers = [] {
    std::array<bool, kIsaCount> result{};
    for (const auto& rung : ladder()) {
      result[static_cast<size_t>(rung.isa)] = ask_cpu(rung.isa);
    }
    return result;
  }();
  return answers[static_cast<size_t>(isa)];
}

}  // namespace

const char* isa_name(Isa isa) {
  for (const auto& rung : ladder()) {
    if (rung.isa == isa) {
      return rung.name;
    }
  }
  return "";
}

std::optional<Isa> parse_isa(std::string_view name) {
  for (const auto& rung : ladder()) {
    if (name == rung.name) {
      return rung.isa;
    }
  }
  return std::nullopt;
}

std::string isa_names() {
  std::string names;
  for (const auto& rung : ladder()) {
    names += (names.empty() ? "" : ", ") + std::string(rung.name);
  }
  return names;
}

bool isa_usable(Isa isa) { return isa <= max_isa() && cpu_has(isa); }

Isa best_isa() {
  const auto rungs = ladder();
  for (auto rung = rungs.rbegin(); rung != rungs.rend(); ++rung) {
    if (isa_usable(rung->isa)) {
      return rung->isa;
    }
  }
  return Isa::ref;
}

bool has_vnni() { return bytes_multiply_exactly(); }

bool has_bf16_arithmetic() {
  static const bool has = cpu_has_bf16();
  return has && isa_usable(half_rung());
}

void set_max_isa(Isa isa) { g_max_isa.store(isa, std::memory_order_relaxed); }
Isa max_isa() { return g_max_isa.load(std::memory_order_relaxed); }

bool has_amx_arithmetic() {
  static const bool has = cpu_has_amx();
  return has && has_bf16_arithmetic();
}

bool has_fp16_arithmetic() {
  static const bool has = cpu_has_fp16();
  return has && isa_usable(half_rung());
}

const std::string& cpu_vendor() {
  static const std::string vendor = ask_vendor();
  return vendor;
}

const std::string& cpu_core() {
  static const std::string core = ask_core();
  return core;
}

}  // namespace cpuaccel
