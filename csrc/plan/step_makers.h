// The kinds of plan steps, in the order in which they are tried on a partition.
//
// To add a kind of step, write NAME_step.cpp with a maker, and add a row to kStepMakers in
// step_makers.cpp.
#pragma once

#include <span>
#include <string_view>

#include "plan/step_maker.h"

namespace cpuaccel::plan {

struct StepMaker {
  std::string_view name;
  // Adds the steps of a partition and returns kAdded, or returns why it does not; the caller then
  // removes the steps that it has added. Throws dnnl::error or std::runtime_error if the partition
  // cannot be computed at all.
  DeclineReason (*make)(StepRequest& request);
};

// The first one that does not decline makes the steps.
std::span<const StepMaker> step_makers();

}  // namespace cpuaccel::plan
