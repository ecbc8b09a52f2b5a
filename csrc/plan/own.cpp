#include "plan/own.h"

#include <map>

#include "plan/moves.h"
#include "plan/slice_scatter.h"

namespace cpuaccel::plan {
namespace {

// Only static initializers write it.
std::map<std::string_view, AddOwn>& own_kinds() {
  static std::map<std::string_view, AddOwn> kinds{
      {"permute", add_move},
      {"slice", add_move},
      {"slice_scatter", add_slice_scatter},
      {"view", add_move},
  };
  return kinds;
}

}  // namespace

RegisterOwn::RegisterOwn(std::string_view name, AddOwn add) { own_kinds().emplace(name, add); }

AddOwn find_own(std::string_view name) {
  const auto& kinds = own_kinds();
  const auto found = kinds.find(name);
  return found == kinds.end() ? nullptr : found->second;
}

WhyNot make_registered(StepRequest& request) {
  if (request.first().kind) {
    return "an op of oneDNN Graph";
  }
  find_own(request.first().name)(request.building, request.program, request.first());
  return kAdded;
}

std::vector<std::string_view> own_kind_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, add] : own_kinds()) {
    names.push_back(name);
  }
  return names;
}

}  // namespace cpuaccel::plan
