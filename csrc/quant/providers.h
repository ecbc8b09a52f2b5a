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
  // The layers this row is for, on this machine.
  bool (*wanted)(const LayerWeight& layer);
  // Why it comes here, with the figures that say so.
  const char* reason;
};

// Best first. A layer that matches no row, or that every matching provider refuses, stays torch's.
std::span<const ProviderRow> provider_rows();

struct Choice {
  std::unique_ptr<Kernel> kernel;  // null: no provider takes the layer
  std::string reason;              // why this provider, or why none
};

// Packs `layer` for the first provider that takes it, leaving out `except`.
Choice choose_kernel(const LayerWeight& layer, const at::Tensor& int8_values,
                     std::optional<Provider> except = std::nullopt);

// Forces one provider (tests, benchmarks); nothing restores the list.
void force_provider(std::optional<Provider> provider);

// True if the library is compiled in and answers.
bool provider_available(Provider provider);

}  // namespace cpuaccel::quant
