// StepRequest: a partition of a region, as the makers of steps (step_makers.h) get it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "plan/build.h"
#include "plan/layer.h"
#include "plan/rows_call.h"

namespace cpuaccel::plan {

class ConcatChains;

// What a maker returns: kAdded, or a literal that says why it adds no steps.
using DeclineReason = std::string_view;
inline constexpr DeclineReason kAdded{};
// Reasons of several makers.
inline constexpr DeclineReason kNotLayer =
    "not a convolution or a product, with post-ops of oneDNN";
inline constexpr DeclineReason kNotRows = "not a product of dense rows and a constant matrix";
inline constexpr DeclineReason kSlowInOnednn =
    "oneDNN has only a reference implementation, or none";

class StepRequest {
 public:
  StepRequest(Building& to, const Region& of, size_t partition_number, ConcatChains& chains)
      : building(to), region(of), number(partition_number), concats(chains) {}

  Building& building;  // gets the steps
  const Region& region;
  const size_t number;  // of the partition
  ConcatChains& concats;

  // Set by a maker whose steps compute other partitions, too: all operations that they compute, and
  // the number of a later partition that gets no steps of its own.
  std::optional<Partition> computed = {};
  std::optional<size_t> fused = {};

  const Partition& partition() const { return region.partitions[number]; }
  const Operation& first() const { return partition().operations.front(); }
  // The partition as a layer, and the layer as a product of rows. Several makers ask for them.
  const std::optional<Layer>& layer();
  const std::optional<RowsCall>& rows();

 private:
  std::optional<std::optional<Layer>> layer_ = {};
  std::optional<std::optional<RowsCall>> rows_ = {};
};

}  // namespace cpuaccel::plan
