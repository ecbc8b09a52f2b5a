// DenseNet concatenations: chains in which each concatenation begins with the inputs of the one
// before it. All of a chain share the memory of the longest one, so each step copies only its new
// inputs.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "plan/step_maker.h"

namespace cpuaccel::plan {

class ConcatChains {
 public:
  explicit ConcatChains(const Region& region);

  // Adds the step of the partition with that number. Declines if it is not in such a chain, if
  // anything but cpuaccel's batch norms reads its result, or if it has more channels than the
  // longest one had when the region was traced.
  DeclineReason add(Building& building, size_t partition);

 private:
  // One concatenation of a chain.
  struct Link {
    const Operation* operation;
    const Operation* before;  // the one whose channels this one begins with; null for the first
    int64_t channels;         // of the last one of the chain
  };

  bool is_read_by_norms(const Building& building, Id id) const;

  const Region& region_;
  std::unordered_map<size_t, Link> links_;  // by partition
  // The value with the memory of the whole chain, by the result of a concatenation.
  std::unordered_map<Id, Id> memory_;
};

// The maker of these steps (step_makers.h).
DeclineReason make_concat_chain(StepRequest& request);

}  // namespace cpuaccel::plan
