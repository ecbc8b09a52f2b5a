// Describes a plan step to users: its operations, sizes, multiply-adds and bytes moved.
#pragma once

#include <string>

#include "plan/region.h"
#include "plan/tensor_desc.h"

namespace cpuaccel::plan {

struct StepFacts {
  std::string kinds;   // of operations, as "Convolution+ReLU"; "copy" if it changes a layout
  std::string sizes;   // "1x16x56x56 * 96x16x1x1 -> 1x96x56x56"
  DataType type = {};  // that layers multiply in; else of the first input
  double multiply_adds = 0;
  double bytes_read = 0, bytes_written = 0;  // each value once, including weights
};

class Building;
class Step;

// Facts of `step`, which runs all of `partition`. The step was added before.
StepFacts facts_of(const Building& building, const Partition& partition, const Step& step);
// Facts of a step that only copies.
StepFacts facts_of_copy(const Building& building, const Step& step);

}  // namespace cpuaccel::plan
