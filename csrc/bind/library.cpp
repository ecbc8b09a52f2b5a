// libcpuaccel.so: what programs without Python link.

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/cpu.h"
#include "base/isa.h"
#include "base/plugin.h"
#include "bind/include/cpuaccel.h"
#include "bind/max_isa.h"
#include "memory/machine.h"
#include "ops/kept_weights.h"
#include "ops/tensor_cache.h"
#include "quant/switch.h"

namespace cpuaccel {
namespace {

// A quarter of the memory there is, as in Python.
void set_cache_capacities() {
  const int64_t bytes = memory::machine_memory().limit / 4;
  ops::weight_cache().set_capacity(bytes);
  ops::KeptWeights::instance().set_capacity(bytes);
  ops::index_cache().set_capacity(bytes);
}

bool switched_off() {
  const char* value = std::getenv("CPUACCEL");
  const std::string_view word = value == nullptr ? "" : value;
  return word == "0" || word == "off" || word == "false" || word == "no";
}

void cap_isa() {
  const char* name = std::getenv("CPUACCEL_MAX_ISA");
  if (name != nullptr && *name != '\0') {
    set_max_isa_by_name(name);
  }
}

}  // namespace

void enable() {
  if (plugin_on() || switched_off()) {
    return;
  }
#if defined(__x86_64__)
  if (!ask_cpu(Isa::avx2)) {
    throw std::runtime_error("cpuaccel::enable: this CPU has no AVX2, which cpuaccel needs");
  }
#endif
  cap_isa();
  set_cache_capacities();
  quant::switch_on();
}

void disable() { quant::switch_off(); }

bool is_enabled() { return plugin_on(); }

std::string version() { return CPUACCEL_VERSION; }

std::string torch_version() { return CPUACCEL_TORCH_VERSION; }

std::string isa() { return isa_name(best_isa()); }

}  // namespace cpuaccel
