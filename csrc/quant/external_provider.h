// Providers that are not part of the engine, because their library belongs to what the engine is
// built into: FBGEMM is a part of torch. csrc/fbgemm registers it when the library is loaded.
#pragma once

#include <memory>

#include "base/api.h"
#include "quant/kernel.h"

namespace cpuaccel::quant {

struct ExternalProvider {
  // Null if the provider can take the layer, else the reason.
  const char* (*unsupported_reason)(const LayerWeight& layer);
  // `layer` outlives the kernel.
  std::unique_ptr<Kernel> (*make)(const LayerWeight& layer, const Int8Weights& values);
  // Whether its kernel for layers of this shape sums no products in 16 bits on this CPU.
  bool (*is_exact)(const LayerShape& shape);
  // Whether the library computes layers of this shape wrongly, whoever calls it.
  bool (*gets_wrong)(const LayerShape& shape);
};

// `functions` is never destroyed.
struct CPUACCEL_API RegisterProvider {
  RegisterProvider(Provider provider, const ExternalProvider& functions);
};

// Null if no such provider was registered.
CPUACCEL_API const ExternalProvider* external_provider(Provider provider);

}  // namespace cpuaccel::quant
