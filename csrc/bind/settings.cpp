#include "bind/settings.h"

#include <atomic>
#include <optional>
#include <stdexcept>

#include "base/isa.h"
#include "base/learned_choice.h"

#ifdef CPUACCEL_HAS_ONEDNN
#include "dnnl/api.h"
#include "dnnl/tuning_cache.h"
#endif

namespace cpuaccel {
namespace {

std::atomic<bool> g_deterministic{false}, g_learns{true};

void update_learning() {
  set_learning(g_learns.load(std::memory_order_relaxed) &&
               !g_deterministic.load(std::memory_order_relaxed));
}

}  // namespace

void set_max_isa_by_name(const std::string& name) {
  const auto isa = name == "auto" ? std::optional(kNewestIsa) : parse_isa(name);
  if (!isa) {
    throw std::invalid_argument("max_isa: expected one of auto, " + isa_names() + ", but got '" +
                                name + "'");
  }
  set_max_isa(*isa);
#ifdef CPUACCEL_HAS_ONEDNN
  // Fails once oneDNN has generated code; then only cpuaccel's kernels follow the new cap.
  const auto cap = *isa == Isa::ref        ? dnnl::cpu_isa::sse41
                   : *isa == Isa::avx2     ? dnnl::cpu_isa::avx2
                   : *isa == Isa::avx_vnni ? dnnl::cpu_isa::avx2_vnni
                   : *isa == Isa::avx512   ? dnnl::cpu_isa::avx512_core
                                           : dnnl::cpu_isa::isa_default;
  static_cast<void>(dnnl_set_max_cpu_isa(static_cast<dnnl_cpu_isa_t>(cap)));
#endif
}

void set_deterministic(bool on) {
#ifdef CPUACCEL_HAS_ONEDNN
  dnnl_layer::set_tuning_enabled(!on);
#endif
  g_deterministic.store(on, std::memory_order_relaxed);
  update_learning();
}

void set_learn(bool on) {
  g_learns.store(on, std::memory_order_relaxed);
  update_learning();
}

void set_cpu(const std::string& names) {
  const size_t space = names.find(' ');
  set_cpu_names(names.substr(0, space),
                space == std::string::npos ? std::string() : names.substr(space + 1));
}

}  // namespace cpuaccel
