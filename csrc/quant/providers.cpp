#include "quant/providers.h"

#include <array>
#include <atomic>
#include <utility>

#include "base/isa.h"
#include "quant/own_kernel.h"

#ifdef CPUACCEL_HAS_FBGEMM
#include "quant/fbgemm_kernel.h"
#endif
#ifdef CPUACCEL_HAS_ONEDNN
#include "dnnl/api.h"
#include "quant/onednn_kernel.h"
#endif

namespace cpuaccel::quant {
namespace {

int64_t pixels(const QuantCall& call) {
  return call.dst_dims[0] * call.dst_dims[1] * call.dst_dims[2];
}

bool plain_2d(const LayerWeight& layer) {
  return layer.shape.kind == LayerKind::conv && layer.shape.spatial == 2;
}

bool is_linear(const LayerWeight& layer, const QuantCall& /*call*/) {
  return layer.shape.kind == LayerKind::linear;
}
bool with_vnni(const LayerWeight& /*layer*/, const QuantCall& /*call*/) { return has_vnni(); }
bool odd_depthwise(const LayerWeight& layer, const QuantCall& /*call*/) {
  return layer.shape.depthwise() && layer.shape.OC % 8 != 0;
}
bool narrow_depthwise(const LayerWeight& layer, const QuantCall& call) {
  return plain_2d(layer) && layer.shape.depthwise() && layer.shape.OC % 32 != 0 &&
         layer.shape.OC <= 256 && pixels(call) >= 196;
}
bool depthwise(const LayerWeight& layer, const QuantCall& /*call*/) {
  return layer.shape.depthwise();
}
bool grouped(const LayerWeight& layer, const QuantCall& /*call*/) {
  return plain_2d(layer) && layer.shape.groups > 1;
}
bool stem(const LayerWeight& layer, const QuantCall& call) {
  return plain_2d(layer) && layer.shape.IC <= 4 && pixels(call) > 196;
}
bool pointwise(const LayerWeight& layer, const QuantCall& call) {
  return plain_2d(layer) && layer.shape.taps() == 1 && pixels(call) > 1;
}
bool large_image(const LayerWeight& layer, const QuantCall& call) {
  return plain_2d(layer) && pixels(call) > 784;
}
bool tiny(const LayerWeight& layer, const QuantCall& call) {
  const LayerShape& s = layer.shape;
  return s.kind != LayerKind::conv_transpose && pixels(call) == 1 &&
         call.N * s.OC * (s.IC / s.groups) * s.taps() <= 1000000;
}
bool any(const LayerWeight& /*layer*/, const QuantCall& /*call*/) { return true; }

// Ratios are times of FBGEMM over oneDNN, geomeans over the shapes of 24 torchvision models at
// batch 1 and one thread, as benchmarks/ops/qconv_providers.py prints them (docs/benchmarks.md).
// They were measured on an EPYC core with AVX2 only; those marked VNNI on an AVX512-VNNI EPYC core.
// Best first; what every provider refuses stays torch's.
constexpr std::array kRows{
    ProviderRow{Provider::own, depthwise, "depthwise: ours is exact and fastest"},
    ProviderRow{Provider::own, tiny,
                "one pixel, at most 10^6 multiply-adds: 1.16 times as fast as FBGEMM, 1.36 as "
                "oneDNN"},
    ProviderRow{
        Provider::fbgemm, is_linear,
        "linear: oneDNN is 0.38 times as fast at up to 8 rows, 0.86 at more; VNNI 40 us against "
        "15 at 1x768x768"},
    ProviderRow{Provider::onednn, with_vnni,
                "convolution, VNNI: 245 us against 419 at 3x3 64->64 56x56, depthwise 144 at 56x56 "
                "90 against 153"},
    ProviderRow{Provider::onednn, odd_depthwise,
                "depthwise, channels not a multiple of 8: 48 times as fast"},
    ProviderRow{Provider::onednn, narrow_depthwise,
                "depthwise, channels not a multiple of 32, large images: 1.3 times as fast"},
    ProviderRow{Provider::fbgemm, depthwise, "depthwise, other: oneDNN is 0.76 times as fast"},
    ProviderRow{Provider::onednn, grouped, "grouped: 1.5 times as fast"},
    ProviderRow{Provider::onednn, stem, "stem of 3 channels: 1.8 times as fast"},
    ProviderRow{Provider::onednn, pointwise, "pointwise: 1.18 times as fast"},
    ProviderRow{Provider::onednn, large_image, "more than 784 pixels: 1.14 times as fast"},
    ProviderRow{Provider::fbgemm, any, "at most 784 pixels, 3-D or transposed: not slower"},
    ProviderRow{Provider::onednn, any, "FBGEMM refuses it"},
    ProviderRow{Provider::own, any, "no library takes it"},
};

// -1: the list decides.
std::atomic<int> g_forced{-1};

const char* refuses(Provider provider, [[maybe_unused]] const LayerWeight& layer) {
  switch (provider) {
    case Provider::own:
      return own_refuses(layer);
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

std::unique_ptr<Kernel> make(Provider provider, [[maybe_unused]] const LayerWeight& layer,
                             [[maybe_unused]] const at::Tensor& int8_values) {
  switch (provider) {
    case Provider::own:
      return make_own_kernel(layer, int8_values);
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

const char* all_refuse(const LayerWeight& layer, const ProviderLimits& limits) {
  if (layer.int8_bytes() == 0) {
    return "empty weight";
  }
  const char* refusal = "no provider for this layer";
  for (const auto& row : kRows) {
    if (limits.only && *limits.only != row.provider) {
      continue;
    }
    refusal = refuses(row.provider, layer);
    if (refusal == nullptr) {
      return nullptr;
    }
  }
  return refusal;
}

Choice choose_kernel(const LayerWeight& layer, const at::Tensor& int8_values, const QuantCall& call,
                     const ProviderLimits& limits) {
  std::string refusal = "no provider for this layer";
  std::optional<Provider> refused = limits.except;
  for (const auto& row : kRows) {
    const bool forced = limits.only == row.provider;
    if (row.provider == refused || (limits.only && !forced) ||
        !(forced || row.wanted(layer, call))) {
      continue;
    }
    const char* why = refuses(row.provider, layer);
    if (why == nullptr && row.provider == Provider::own) {
      why = own_refuses(layer, int8_values);
    }
    if (why == nullptr) {
      auto kernel = make(row.provider, layer, int8_values);
      why = kernel->refuses(call);
      if (why == nullptr) {
        return {std::move(kernel), forced ? "forced" : row.reason};
      }
    }
    refusal = why;
    refused = row.provider;
  }
  return {nullptr, refusal};
}

void force_provider(std::optional<Provider> provider) {
  g_forced.store(provider ? static_cast<int>(*provider) : -1, std::memory_order_relaxed);
}

std::optional<Provider> forced_provider() {
  const int forced = g_forced.load(std::memory_order_relaxed);
  return forced < 0 ? std::nullopt : std::optional(static_cast<Provider>(forced));
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
  return provider == Provider::own || provider == Provider::intree;
}

}  // namespace cpuaccel::quant
