#include "base/isa.h"

#include <array>
#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <utility>

#include "base/amx.h"
#include "base/cpu.h"

namespace cpuaccel {
namespace {

std::atomic<Isa> g_max_isa{kNewestIsa};

struct IsaState {
  bool there = false;
  Isa named = Isa::ref;
};

using IsaStates = std::array<IsaState, kIsaCount>;

// Out of line, so that isa_usable(), which precedes every kernel call, stays short.
[[gnu::noinline]] IsaStates states_here() {
  IsaStates states;
  for (size_t isa = 0; isa < kIsaCount; ++isa) {  // also ISAs of the other architecture
    states[isa].named = static_cast<Isa>(isa);
  }
  for (const auto& row : isa_rows()) {
    states[static_cast<size_t>(row.isa)] = {this_cpu().has(row.needs), row.named};
  }
  return states;
}

const IsaState& state_of(Isa isa) {
  static const IsaStates states = states_here();
  return states[static_cast<size_t>(isa)];
}

bool there_and_allowed(Isa isa) {
  const IsaState& state = state_of(isa);
  return state.named <= max_isa() && state.there;
}

struct CpuNames {
  std::string vendor, core;
};

// Null: those of this CPU.
std::atomic<const CpuNames*> g_other_names{nullptr};

// All that set_cpu_names() was given. Replaced ones stay, because callers may hold their texts.
const CpuNames* keep(CpuNames names) {
  static std::mutex mutex;
  static std::list<CpuNames> kept;
  const std::scoped_lock lock(mutex);
  return &kept.emplace_back(std::move(names));
}

const CpuNames& names() {
  static const CpuNames here{ask_vendor(), ask_core()};
  const CpuNames* const other = g_other_names.load(std::memory_order_acquire);
  return other != nullptr ? *other : here;
}

}  // namespace

const Features& this_cpu() {
  static const Features features = ask_features();
  return features;
}

const char* isa_name(Isa isa) {
  for (const auto& row : isa_rows()) {
    if (row.isa == named_isa(isa)) {
      return row.name;
    }
  }
  return "";
}

std::optional<Isa> parse_isa(std::string_view name) {
  for (const auto& row : isa_rows()) {
    if (row.name != nullptr && name == row.name) {
      return row.isa;
    }
  }
  return std::nullopt;
}

std::string isa_names() {
  std::string names;
  for (const auto& row : isa_rows()) {
    if (row.name != nullptr) {
      names += (names.empty() ? "" : ", ") + std::string(row.name);
    }
  }
  return names;
}

Isa named_isa(Isa isa) { return state_of(isa).named; }

bool cpu_has(Isa isa) { return state_of(isa).there; }

bool isa_usable(Isa isa) { return there_and_allowed(isa) && (isa != Isa::amx || has_amx_tiles()); }

Isa best_isa() {
  const auto rows = isa_rows();
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (row->name != nullptr && isa_usable(row->isa)) {
      return row->isa;
    }
  }
  return Isa::ref;
}

void set_max_isa(Isa isa) { g_max_isa.store(isa, std::memory_order_relaxed); }
Isa max_isa() { return g_max_isa.load(std::memory_order_relaxed); }

bool has_vnni() { return bytes_multiply_exactly(); }

bool has_bf16_arithmetic() {
  static const bool is_slow = multiplies_bf16_slowly();
  return isa_usable(Isa::bf16) && (!is_slow || has_amx_arithmetic());
}

bool has_amx_arithmetic() { return there_and_allowed(Isa::amx); }

bool has_fp16_arithmetic() { return isa_usable(Isa::fp16); }

const std::string& cpu_vendor() { return names().vendor; }

int cpu_family() {
  static const int family = ask_family();
  return family;
}

const std::string& cpu_core() { return names().core; }

void set_cpu_names(std::string vendor, std::string core) {
  const bool is_this_cpu = vendor.empty();
  g_other_names.store(is_this_cpu ? nullptr : keep({std::move(vendor), std::move(core)}),
                      std::memory_order_release);
}

}  // namespace cpuaccel
