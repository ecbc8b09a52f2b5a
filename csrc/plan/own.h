// Registry of cpuaccel's own op kinds, which oneDNN Graph does not have: maps a name to the
// function that adds the steps.
#pragma once

#include <string_view>
#include <vector>

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// Adds the steps that compute the outputs of `operation`. Throws std::runtime_error if it cannot.
using AddSteps = void (*)(Building& building, const Region& region, const Operation& operation);

// For static initializers: registers a kind that an upper layer implements.
struct RegisterStep {
  RegisterStep(std::string_view name, AddSteps add);
};

// The maker of the steps of registered kinds (step_makers.h).
WhyNot make_registered(StepRequest& request);

// Null if there is no such kind.
AddSteps find_registered(std::string_view name);
// The names of all of them, sorted.
std::vector<std::string_view> own_kind_names();

}  // namespace cpuaccel::plan
