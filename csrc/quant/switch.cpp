#include "quant/switch.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <vector>

#include "base/fork.h"
#include "base/parallel.h"
#include "base/plugin.h"
#include "ops/overrides.h"
#include "ops/torch_kernel.h"
#include "quant/overrides.h"
#include "quant/providers.h"
#include "quant/serialization.h"

namespace cpuaccel::quant {
namespace {

void at_parallel_for(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body) {
  at::parallel_for(begin, end, grain_size, body);
}

int at_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

struct SwitchState {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::params, this);
  bool torch_kernels_kept = false;
  std::vector<std::unique_ptr<torch::Library>> libraries;
};

// Never destroyed: ops run while the process exits.
SwitchState& state() {
  static auto& instance = *std::make_unique<SwitchState>().release();
  return instance;
}

// torch warns once per process when a kernel is put over another; here that is the purpose.
class QuietWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

// All lists: that of the packed layers, then those of csrc/ops.
std::vector<ops::Override> all_overrides() {
  const auto layers = quant_overrides();
  std::vector<ops::Override> all(layers.begin(), layers.end());
  for (const auto& list : ops::op_overrides()) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

void register_override(SwitchState& s, const ops::Override& row) {
  const std::string_view name(row.name);
  const auto colons = name.find("::");
  auto& library = *s.libraries.emplace_back(std::make_unique<torch::Library>(
      torch::Library::IMPL, std::string(name.substr(0, colons)), row.key, __FILE__, __LINE__));
  library.impl(std::string(name.substr(colons + 2)).c_str(), row.function());
}

}  // namespace

std::vector<std::string> overridden_ops() {
  std::vector<std::string> names;
  for (const auto& row : all_overrides()) {
    const std::string name(row.name);
    names.push_back(name.substr(0, name.find('.')));
  }
  return names;
}

void switch_on() {
  auto& s = state();
  const std::scoped_lock lock(s.mutex);
  if (plugin_on()) {
    return;
  }
  set_parallel_for(at_parallel_for, at_threads);
  const auto overrides = all_overrides();
  if (!s.torch_kernels_kept) {
    for (const auto& row : overrides) {
      ops::keep_torch_kernel(row.name, row.key);
    }
    s.torch_kernels_kept = true;
  }
  QuietWarnings quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  for (const auto& row : overrides) {
    register_override(s, row);
  }
  replace_setstate();
  set_plugin_on(true);
}

void switch_off() {
  auto& s = state();
  const std::scoped_lock lock(s.mutex);
  if (!plugin_on()) {
    return;
  }
  set_plugin_on(false);
  restore_setstate();
  s.libraries.clear();
}

}  // namespace cpuaccel::quant
