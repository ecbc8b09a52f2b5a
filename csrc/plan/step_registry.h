// Registry of the op kinds that oneDNN Graph does not have: maps a name to the function that adds
// the steps.
//
// To add a kind, write a file with such a function. In a folder above csrc/plan it registers itself
// with a RegisterStep; in csrc/plan it gets a row in the registry's table. The kinds of csrc/plan
// are in that table because the linker drops objects of a static library that nobody calls.
#pragma once

#include <string_view>
#include <vector>

#include "base/api.h"
#include "plan/step_maker.h"

namespace cpuaccel::plan {

// Adds the steps that compute the outputs of `operation`. Throws std::runtime_error if it cannot.
using AddSteps = void (*)(Building& building, const Region& region, const Operation& operation);

// For static initializers: registers a kind that an upper layer implements.
struct CPUACCEL_API RegisterStep {
  RegisterStep(std::string_view name, AddSteps add);
};

// The maker of the steps of registered kinds (step_makers.h).
DeclineReason make_registered(StepRequest& request);

// Null if no kind has this name.
AddSteps find_registered(std::string_view name);
// The names of all registered kinds, sorted.
CPUACCEL_API std::vector<std::string_view> registered_op_kinds();

}  // namespace cpuaccel::plan
