#include "quant/providers.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/isa.h"
#include "quant/cpuaccel_kernel.h"
#include "quant/external_provider.h"

#ifdef CPUACCEL_HAS_ONEDNN
#include "dnnl/api.h"
#include "quant/onednn_kernel.h"
#endif

namespace cpuaccel::quant {
namespace {

// -1: the table decides.
std::atomic<int> g_forced{-1};

const char* unsupported_reason(Provider provider, const LayerWeight& layer) {
  switch (provider) {
    case Provider::cpuaccel:
      return cpuaccel_unsupported_reason(layer);
#ifdef CPUACCEL_HAS_ONEDNN
    case Provider::onednn:
      return onednn_unsupported_reason(layer);
#endif
    default: {
      const auto* external = external_provider(provider);
      return external != nullptr ? external->unsupported_reason(layer)
                                 : "the library is not built in";
    }
  }
}

std::unique_ptr<Kernel> make(Provider provider, const LayerWeight& layer,
                             const Int8Weights& values) {
  switch (provider) {
    case Provider::cpuaccel:
      return make_cpuaccel_kernel(layer, values);
#ifdef CPUACCEL_HAS_ONEDNN
    case Provider::onednn:
      return make_onednn_kernel(layer, values);
#endif
    default: {
      const auto* external = external_provider(provider);
      return external != nullptr ? external->make(layer, values) : nullptr;
    }
  }
}

}  // namespace

const char* no_provider_reason(const LayerWeight& layer, const ProviderLimits& limits) {
  if (layer.int8_bytes() == 0) {
    return "the weight is empty";
  }
  const char* reason = "no provider supports this layer";
  for (const auto& row : provider_rows()) {
    if ((limits.only && *limits.only != row.provider) || limits.except == row.provider) {
      continue;
    }
    reason = unsupported_reason(row.provider, layer);
    if (reason == nullptr) {
      return nullptr;
    }
  }
  return reason;
}

const char* no_provider_reason_by_values(const LayerWeight& layer, const Int8Weights& values) {
  const bool a_library_takes_it = std::ranges::any_of(provider_rows(), [&](const auto& row) {
    return row.provider != Provider::cpuaccel && unsupported_reason(row.provider, layer) == nullptr;
  });
  return a_library_takes_it ? nullptr : cpuaccel_unsupported_reason(layer, values);
}

Choice choose_kernel(const LayerWeight& layer, const Int8Weights& values, const QuantCall& call,
                     const ProviderLimits& limits) {
  std::string reason = "no provider supports this layer";
  std::optional<Provider> declined = limits.except;
  for (const auto& row : provider_rows()) {
    const bool forced = limits.only == row.provider;
    if (row.provider == declined || (limits.only && !forced) ||
        !(forced || row.wanted(layer, call))) {
      continue;
    }
    const char* why = unsupported_reason(row.provider, layer);
    if (why == nullptr && row.provider == Provider::cpuaccel) {
      why = cpuaccel_unsupported_reason(layer, values);
    }
    if (why == nullptr) {
      auto kernel = make(row.provider, layer, values);
      why = kernel->unsupported_reason(call);
      if (why == nullptr) {
        return {std::move(kernel), forced ? "forced" : row.reason};
      }
    }
    reason = why;
    declined = row.provider;
  }
  if (!limits.only && limits.except != Provider::cpuaccel &&
      cpuaccel_unsupported_reason(layer) != nullptr &&
      exact_unsupported_reason(layer, values) == nullptr) {
    auto kernel = make_exact_kernel(layer, values);
    if (kernel->unsupported_reason(call) == nullptr) {
      return {std::move(kernel), "no library supports it"};
    }
  }
  return {nullptr, reason};
}

void force_provider(std::optional<Provider> provider) {
  g_forced.store(provider ? static_cast<int>(*provider) : -1, std::memory_order_relaxed);
}

std::optional<Provider> forced_provider() {
  const int forced = g_forced.load(std::memory_order_relaxed);
  return forced < 0 ? std::nullopt : std::optional(static_cast<Provider>(forced));
}

bool provider_available(Provider provider) {
#ifdef CPUACCEL_HAS_ONEDNN
  if (provider == Provider::onednn) {
    return dnnl_layer::versions_agree();
  }
#endif
  return provider == Provider::cpuaccel || provider == Provider::intree ||
         external_provider(provider) != nullptr;
}

}  // namespace cpuaccel::quant
