// What a build may lack: the front end for torch's quantized tensors (csrc/torch_ao).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ops/override.h"

namespace cpuaccel {

// Overrides of ops that pack weights.
std::span<const ops::Override> prepack_overrides();
// Overrides of ops that run packed weights, and whether they stay registered while the plugin is
// off.
std::span<const ops::Override> packed_layer_overrides();
bool packed_layer_overrides_stay();

// Switches what is not an override on and off.
void switch_front_ends_on();
void switch_front_ends_off();

// The engine that cpuaccel replaces, as torch.backends.quantized.engine names it; nullopt without
// the front end.
std::optional<std::string> replaced_engine();

}  // namespace cpuaccel
