#include "bind/registration.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/fork.h"
#include "base/parallel.h"
#include "base/plugin.h"
#include "bind/front_ends.h"
#include "ops/overrides.h"
#include "ops/region/collectives.h"
#include "ops/torch_compat.h"
#include "ops/torch_kernel.h"

namespace cpuaccel {
namespace {

void at_parallel_for(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body) {
  at::parallel_for(begin, end, grain_size, body);
}

int at_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

// When the library is loaded, because plans run while the overrides are off too.
[[maybe_unused]] const bool kZeroPointsAreSet = [] {
  kernels::set_zero_point_added(torch_compat::kZeroPointAdded);
  return true;
}();

using Libraries = std::vector<std::unique_ptr<torch::Library>>;

struct Registration {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::params, this);
  bool torch_kernels_saved = false;
  Libraries libraries;
  Libraries permanent;  // stay registered while the plugin is off
};

// Never destroyed, because ops may run while the process exits.
Registration& state() {
  static auto& instance = *std::make_unique<Registration>().release();
  return instance;
}

// torch warns once per process when a kernel overrides another; here that is intended.
class QuietWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

std::array<std::span<const ops::Override>, 3> all_overrides() {
  return {ops::op_overrides(), prepack_overrides(), packed_layer_overrides()};
}

// Whether a list stays registered while the plugin is off.
bool is_permanent(std::span<const ops::Override> list) {
  return packed_layer_overrides_stay() && list.data() == packed_layer_overrides().data();
}

void register_override(Libraries& libraries, const ops::Override& row) {
  const std::string_view name(row.name);
  const auto colons = name.find("::");
  auto& library = *libraries.emplace_back(std::make_unique<torch::Library>(
      torch::Library::IMPL, std::string(name.substr(0, colons)), row.key, __FILE__, __LINE__));
  library.impl(std::string(name.substr(colons + 2)).c_str(), row.function());
}

}  // namespace

std::vector<OverriddenKernel> overridden_kernels() {
  std::vector<OverriddenKernel> kernels;
  for (const auto& list : all_overrides()) {
    for (const auto& row : list) {
      kernels.emplace_back(row.name, c10::toString(row.key));
    }
  }
  return kernels;
}

std::vector<std::string> overridden_ops() {
  std::vector<std::string> names;
  for (const auto& [name, key] : overridden_kernels()) {
    names.push_back(name.substr(0, name.find('.')));
  }
  return names;
}

void register_overrides() {
  auto& s = state();
  const std::scoped_lock lock(s.mutex);
  if (plugin_on()) {
    return;
  }
  set_parallel_for(at_parallel_for, at_threads);
  const auto overrides = all_overrides();
  if (!s.torch_kernels_saved) {
    for (const auto& list : overrides) {
      for (const auto& row : list) {
        ops::save_torch_kernel(row.name, row.key);
      }
    }
    s.torch_kernels_saved = true;
  }
  QuietWarnings quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  ops::count_writes_of_collectives();
  for (const auto& list : overrides) {
    auto& libraries = is_permanent(list) ? s.permanent : s.libraries;
    if (&libraries == &s.permanent && !s.permanent.empty()) {
      continue;
    }
    for (const auto& row : list) {
      register_override(libraries, row);
    }
  }
  switch_front_ends_on();
  set_plugin_on(true);
}

void unregister_overrides() {
  auto& s = state();
  const std::scoped_lock lock(s.mutex);
  if (!plugin_on()) {
    return;
  }
  set_plugin_on(false);
  switch_front_ends_off();
  s.libraries.clear();
}

}  // namespace cpuaccel
