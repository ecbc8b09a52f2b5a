// Which library takes a quantised layer: one ordered list, first match wins.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "quant/kernel.h"

namespace cpuaccel::quant {

struct ProviderRow {
  Provider provider;
  // The cases this row is for, on this machine: layer and, for the sizes of images, its first call.
  bool (*wanted)(const LayerWeight& layer, const QuantCall& call);
  // Why it comes here, with the figures that say so.
  const char* reason;
};

// What every row refuses stays torch's.
std::span<const ProviderRow> provider_rows();

// What choose_kernel() may take.
struct ProviderLimits {
  std::optional<Provider> only;    // forced, for tests and benchmarks
  std::optional<Provider> except;  // has refused the call
};

struct Choice {
  std::unique_ptr<Kernel> kernel;  // null: no provider takes the layer
  std::string reason;              // why this provider, or why none
};

// Null if some provider takes the layer, else why none does.
const char* all_refuse(const LayerWeight& layer, const ProviderLimits& limits);

// Likewise by the values of the weights. Null, unlooked at, where a library takes the layer by its
// shape: their kernels take all values.
const char* all_refuse_values(const LayerWeight& layer, const at::Tensor& int8_values);

// Packs `layer` for the first provider of the list that takes it and can run `call`.
Choice choose_kernel(const LayerWeight& layer, const at::Tensor& int8_values, const QuantCall& call,
                     const ProviderLimits& limits);

// Forces one provider for layers packed from now on; nothing restores the list.
void force_provider(std::optional<Provider> provider);
std::optional<Provider> forced_provider();

// True if the library is compiled in and answers.
bool provider_available(Provider provider);

}  // namespace cpuaccel::quant
