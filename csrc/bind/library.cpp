// libcpuaccel.so: the library that C++ programs without Python link (enable(), disable(), ...).

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "base/isa.h"
#include "base/plugin.h"
#include "bind/include/cpuaccel.h"
#include "bind/registration.h"
#include "bind/settings.h"
#include "memory/machine.h"
#include "ops/packed_weight_cache.h"
#include "ops/tensor_cache.h"

namespace cpuaccel {
namespace {

// A quarter of the memory limit, as in Python.
void set_cache_capacities() {
  const int64_t bytes = memory::machine_memory().limit / 4;
  ops::weight_cache().set_capacity(bytes);
  ops::PackedWeightCache::instance().set_capacity(bytes);
  ops::index_cache().set_capacity(bytes);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_on(const char* name, bool without) {
  const std::string word = environment(name);
  const auto is_one_of = [&word](const auto& words) {
    return std::ranges::find(words, word) != std::end(words);
  };
  if (word.empty()) {
    return without;
  }
  if (is_one_of(std::array{"1", "true", "on", "yes"})) {
    return true;
  }
  if (is_one_of(std::array{"0", "false", "off", "no"})) {
    return false;
  }
  throw std::invalid_argument(std::string(name) + ": expected 0 or 1, but got '" + word + "'");
}

void cap_isa() {
  if (const auto name = environment("CPUACCEL_MAX_ISA"); !name.empty()) {
    set_max_isa_by_name(name);
  }
}

}  // namespace

void enable() {
  if (plugin_on() || !is_on("CPUACCEL", true)) {
    return;
  }
#if defined(__x86_64__)
  if (!cpu_has(Isa::avx2)) {
    throw std::runtime_error("cpuaccel::enable: this CPU has no AVX2, which cpuaccel needs");
  }
#endif
  cap_isa();
  set_deterministic(is_on("CPUACCEL_DETERMINISTIC", false));
  set_learn(is_on("CPUACCEL_LEARN", true));
  set_cache_capacities();
  register_overrides();
}

void disable() { unregister_overrides(); }

bool is_enabled() { return plugin_on(); }

std::string version() { return CPUACCEL_VERSION; }

std::string torch_version() { return CPUACCEL_TORCH_VERSION; }

std::string isa() { return isa_name(best_isa()); }

}  // namespace cpuaccel
