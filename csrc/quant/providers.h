// Chooses the provider (oneDNN, FBGEMM or cpuaccel) of a quantized layer from an ordered table: the
// first row that matches wins.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/api.h"
#include "quant/kernel.h"

namespace cpuaccel::quant {

struct ProviderRow {
  Provider provider;
  // Whether the row applies on this machine to a layer and its first call, which gives the sizes of
  // images.
  bool (*wanted)(const LayerWeight& layer, const QuantCall& call);
  // Why the row stands here, with the measurements.
  const char* reason;
};

// The table, best row first. If no row supports a layer, an exact kernel
// (exact_unsupported_reason()) or torch runs it.
std::span<const ProviderRow> provider_rows();

// What choose_kernel() may take.
struct ProviderLimits {
  std::optional<Provider> only;    // forced, for tests and benchmarks
  std::optional<Provider> except;  // has declined the call
};

struct Choice {
  std::unique_ptr<Kernel> kernel;  // null: no provider takes the layer
  std::string reason;              // why this provider, or why none
};

// Null if some provider takes the layer, else the reason why none does.
const char* no_provider_reason(const LayerWeight& layer, const ProviderLimits& limits);

// The same, judged by the values of the weights. Returns null without reading them if a library
// takes the layer by its shape, because the libraries' kernels take all values.
const char* no_provider_reason_by_values(const LayerWeight& layer, const Int8Weights& values);

// Packs `layer` for the first provider of the table that takes it and can run `call`.
Choice choose_kernel(const LayerWeight& layer, const Int8Weights& values, const QuantCall& call,
                     const ProviderLimits& limits);

// Forces one provider for layers packed from now on; nullopt restores the table.
CPUACCEL_API void force_provider(std::optional<Provider> provider);
CPUACCEL_API std::optional<Provider> forced_provider();

// True if the library is compiled in and answers.
CPUACCEL_API bool provider_available(Provider provider);

}  // namespace cpuaccel::quant
