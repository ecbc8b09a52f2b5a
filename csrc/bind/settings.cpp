#include "bind/settings.h"

#include <optional>
#include <stdexcept>

#include "base/isa.h"

#ifdef CPUACCEL_HAS_ONEDNN
#include "dnnl/api.h"
#include "dnnl/tuning_cache.h"
#endif

namespace cpuaccel {

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

void set_deterministic([[maybe_unused]] bool on) {
#ifdef CPUACCEL_HAS_ONEDNN
  dnnl_layer::set_tuning_enabled(!on);
#endif
}

}  // namespace cpuaccel
