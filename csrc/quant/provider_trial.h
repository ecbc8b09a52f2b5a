// Which provider runs a layer the fastest, found out by running all that take it.
#pragma once

#include <string>
#include <vector>

#include "quant/providers.h"

namespace cpuaccel::quant {

// What a trial found out of one provider.
struct ProviderTrial {
  Choice choice;
  double seconds = 0;
  // Its results are those of the first provider: the same bytes, floats but for rounding.
  bool is_same = true;
};

// `choice`, or the kernel of a provider that is clearly faster for `call` on this machine: as it is
// known (dnnl/ranks.h), or timed now on sources of its own, some milliseconds. `choice` as well
// where timing is off, and without VNNI, where only our kernels are exact.
Choice fastest_choice(const LayerWeight& layer, const at::Tensor& int8_values,
                      const QuantCall& call, Choice choice);

// Runs `call`'s sizes, on random sources, by `choice` and by each other provider that takes them
// and rounds alike.
std::vector<ProviderTrial> try_providers(const LayerWeight& layer, const at::Tensor& int8_values,
                                         const QuantCall& call, Choice choice);

}  // namespace cpuaccel::quant
