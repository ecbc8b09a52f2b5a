#include "plan/step_registry.h"

#include <map>

#include "plan/elementwise_step.h"
#include "plan/gated_product_step.h"
#include "plan/norm_step.h"
#include "plan/rotary_step.h"
#include "plan/slice_scatter.h"
#include "plan/view_ops.h"

namespace cpuaccel::plan {
namespace {

// Only static initializers write it.
std::map<std::string_view, AddSteps>& registered_kinds() {
  static std::map<std::string_view, AddSteps> kinds{
      {"gated_product", add_gated_product},
      {"permute", add_view_op},
      {"rms_norm", add_rms_norm},
      {"rotary", add_rotary},
      {"scale", add_scale},
      {"slice", add_view_op},
      {"slice_scatter", add_slice_scatter},
      {"view", add_view_op},
  };
  return kinds;
}

}  // namespace

RegisterStep::RegisterStep(std::string_view name, AddSteps add) {
  registered_kinds().emplace(name, add);
}

AddSteps find_registered(std::string_view name) {
  const auto& kinds = registered_kinds();
  const auto found = kinds.find(name);
  return found == kinds.end() ? nullptr : found->second;
}

DeclineReason make_registered(StepRequest& request) {
  if (request.first().kind) {
    return "an op of oneDNN Graph";
  }
  find_registered(request.first().name)(request.building, request.region, request.first());
  return kAdded;
}

std::vector<std::string_view> registered_op_kinds() {
  std::vector<std::string_view> names;
  for (const auto& [name, add] : registered_kinds()) {
    names.push_back(name);
  }
  return names;
}

}  // namespace cpuaccel::plan
