#include "quant/providers.h"

#include <array>
#include <atomic>

#include "base/isa.h"

#ifdef CPUACCEL_HAS_FBGEMM
#include "quant/fbgemm_kernel.h"
#endif
#ifdef CPUACCEL_HAS_ONEDNN
#include "dnnl/api.h"
#include "quant/onednn_kernel.h"
#endif

namespace cpuaccel::quant {
namespace {

bool is_linear(const LayerWeight& layer) { return layer.shape.kind == LayerKind::linear; }
bool vnni_convolution(const LayerWeight& layer) { return !is_linear(layer) && has_vnni(); }
bool any(const LayerWeight& /*layer*/) { return true; }

// Figures: us a call, one thread. VNNI: an AVX512-VNNI EPYC core. AVX2: an EPYC core without VNNI,
// benchmarks/ops/qconv_providers.py (docs/benchmarks.md).
constexpr std::array kRows{
    ProviderRow{Provider::fbgemm, is_linear,
                "linear: FBGEMM 15 us, oneDNN 40 us at 1x768x768 (VNNI)"},
    ProviderRow{Provider::onednn, vnni_convolution,
                "convolution with VNNI: oneDNN 245 us, FBGEMM 419 us at 3x3 64->64 56x56; depthwise "
                "144 at 56x56 90 and 153 us"},
    ProviderRow{Provider::fbgemm, any, "the other library refuses it"},
    ProviderRow{Provider::onednn, any, "the other library refuses it"},
};

// -1: the list decides.
std::atomic<int> g_forced{-1};

const char* refuses(Provider provider, const LayerWeight& layer) {
  switch (provider) {
#ifdef CPUACCEL_HAS_FBGEMM
    case Provider::fbgemm:
      return fbgemm_refuses(layer);
#endif
#ifdef CPUACCEL_HAS_ONEDNN
    case Provider::onednn:
      return onednn_refuses(layer);
#endif
    default:
      return "library not built in";
  }
}

std::unique_ptr<Kernel> make(Provider provider, const LayerWeight& layer,
                             const at::Tensor& int8_values) {
  switch (provider) {
#ifdef CPUACCEL_HAS_FBGEMM
    case Provider::fbgemm:
      return make_fbgemm_kernel(layer, int8_values);
#endif
#ifdef CPUACCEL_HAS_ONEDNN
    case Provider::onednn:
      return make_onednn_kernel(layer, int8_values);
#endif
    default:
      return nullptr;
  }
}

}  // namespace

std::span<const ProviderRow> provider_rows() { return kRows; }

Choice choose_kernel(const LayerWeight& layer, const at::Tensor& int8_values,
                     std::optional<Provider> except) {
  if (layer.int8_bytes() == 0) {
    return {nullptr, "empty weight"};
  }
  const int forced = g_forced.load(std::memory_order_relaxed);
  std::string refusal = "no provider for this layer";
  for (const auto& row : kRows) {
    const bool is_forced = forced == static_cast<int>(row.provider);
    if (row.provider == except || (forced >= 0 && !is_forced) || !row.wanted(layer)) {
      continue;
    }
    if (const char* why = refuses(row.provider, layer)) {
      refusal = why;
      continue;
    }
    return {make(row.provider, layer, int8_values), is_forced ? "forced" : row.reason};
  }
  return {nullptr, refusal};
}

void force_provider(std::optional<Provider> provider) {
  g_forced.store(provider ? static_cast<int>(*provider) : -1, std::memory_order_relaxed);
}

bool provider_available(Provider provider) {
#ifdef CPUACCEL_HAS_FBGEMM
  if (provider == Provider::fbgemm) {
    return true;
  }
#endif
#ifdef CPUACCEL_HAS_ONEDNN
  if (provider == Provider::onednn) {
    return dnnl_layer::versions_agree();
  }
#endif
  return provider == Provider::intree;
}

}  // namespace cpuaccel::quant
