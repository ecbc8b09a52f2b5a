#include "bind/front_ends.h"

#ifdef CPUACCEL_HAS_QUANTIZED_TENSORS
#include <algorithm>
#include <cctype>

#include "torch_ao/engine.h"
#include "torch_ao/overrides.h"
#include "torch_ao/serialization.h"
#endif

namespace cpuaccel {

#ifdef CPUACCEL_HAS_QUANTIZED_TENSORS

std::span<const ops::Override> prepack_overrides() { return torch_ao::prepack_overrides(); }

std::span<const ops::Override> packed_layer_overrides() { return torch_ao::casting_overrides(); }

// If the replaced engine casts packed objects to torch's classes without a check
// (TorchEngine::casts_objects), its kernels must not get cpuaccel's packed objects, which may
// outlive the plugin. The overrides then stay, and pass torch's objects on to torch.
bool packed_layer_overrides_stay() { return torch_ao::kReplacedEngine.casts_objects; }

void switch_front_ends_on() { torch_ao::replace_setstate(); }
void switch_front_ends_off() { torch_ao::restore_setstate(); }

std::optional<std::string> replaced_engine() {
  std::string name = toString(torch_ao::kReplacedEngine.name);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

#else

std::span<const ops::Override> prepack_overrides() { return {}; }
std::span<const ops::Override> packed_layer_overrides() { return {}; }
bool packed_layer_overrides_stay() { return false; }
void switch_front_ends_on() {}
void switch_front_ends_off() {}
std::optional<std::string> replaced_engine() { return std::nullopt; }

#endif

}  // namespace cpuaccel
