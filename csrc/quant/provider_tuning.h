// Tuning of providers: times all providers that take a quantized layer and chooses the fastest.
#pragma once

#include <string>
#include <vector>

#include "quant/providers.h"

namespace cpuaccel::quant {

// The timing of one provider.
struct ProviderTiming {
  Choice choice;
  double seconds = 0;
  // Whether its results equal those of the first provider: the same bytes, or floats up to
  // rounding.
  bool is_same = true;
};

// Returns `choice`, or the kernel of a provider that is clearly faster for `call` on this machine.
// Which one that is comes from the tuning cache (dnnl/tuning_cache.h), or is timed now on random
// sources, which takes some milliseconds. Returns `choice` if tuning is off, and without VNNI,
// where only cpuaccel's kernels are exact.
Choice fastest_choice(const LayerWeight& layer, const Int8Weights& values, const QuantCall& call,
                      Choice choice);

// Runs `call`'s sizes on random sources, with `choice` and with each other provider that takes them
// and rounds alike.
std::vector<ProviderTiming> time_providers(const LayerWeight& layer, const Int8Weights& values,
                                           const QuantCall& call, Choice choice);

}  // namespace cpuaccel::quant
