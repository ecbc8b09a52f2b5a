// What a step is, for people: who computes what, and how much that is.
#pragma once

#include <string>

#include "graph/program.h"
#include "graph/tensor_desc.h"

namespace cpuaccel::graph {

struct StepFacts {
  std::string kinds;   // of the operations, as "Convolution+ReLU"; "copy" of what brings in order
  std::string sizes;   // "1x16x56x56 * 96x16x1x1 -> 1x96x56x56"
  DataType type = {};  // of the first source: layers multiply in it
  double multiply_adds = 0;
  double bytes_read = 0, bytes_written = 0;  // each value once, weights too
};

class Building;
class Step;

// Of `step`, which runs all of `partition`, after it was added.
StepFacts facts_of(const Building& building, const Partition& partition, const Step& step);
// Of a step that only moves numbers.
StepFacts facts_of_copy(const Building& building, const Step& step);

}  // namespace cpuaccel::graph
