// The builder of a plan: makes the steps of a region, one partition after the other, and then gives
// every value its memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/api.h"
#include "plan/build.h"
#include "plan/concat_chain.h"
#include "plan/plan.h"

namespace cpuaccel::plan {

class CPUACCEL_API Plan::Builder : public Building {
 public:
  Builder(const Region& region, std::span<const TensorDesc> inputs,
          std::span<const TensorDesc> constants, std::span<const void* const> constant_data,
          PackedWeights& packed, bool fast_math, size_t written);

  // Adds the steps of the next partition. Adds none if the partition is fused into another one's
  // step.
  void add_next();
  // Whether the results of a partition, for inputs as they were traced, have the sizes that torch's
  // have.
  bool has_traced_sizes(size_t partition) const;
  // Replaces add_next() for a partition that has no steps: its results get channels_last, the
  // layout that layers write.
  void pretend_next() { pretend(current_++); }
  void pretend(size_t partition);

  // Moves the steps to `result`, with the memory of everything that they read and write.
  void finish(Plan& result);

  DataType type(Id id) const override;
  const TensorDesc& desc(Id id) const override { return descs_.at(id); }
  bool is_constant(Id id) const override { return constants_.contains(id); }
  const void* constant(Id id) const override;
  bool may_overwrite(Id to, Id from) const override;
  bool is_in_place(Id to, Id from) const override;
  PackedWeights& packed() override { return packed_; }
  bool fast_math() const override { return fast_math_; }
  bool alias(Id to, Id from, const TensorDesc& desc, int64_t offset) override;
  std::vector<Id>& derived(Id from, const std::string& how) override {
    return derived_[{from, how}];
  }
  Id new_value(DataType type) override;
  void add(std::unique_ptr<Step> step) override;

 private:
  // The value whose memory a view is part of, and the view's offset there.
  struct Root {
    Id id;
    size_t bytes;
  };

  // Calls the step makers in turn until one makes the steps of the request.
  void make_steps(StepRequest& request);
  // Sets the facts of the steps from `first` on, which compute a partition. The last step writes
  // its result. A step before it writes the result of an operation on the way, or copies a source
  // to another layout.
  void set_facts(size_t first, const Partition& partition);

  // The outputs that have memory of their own.
  std::span<const Output> fresh_outputs() const;
  Root root_of(Id id) const;
  // If the output's layout is not the one asked for, its steps write a temporary value instead,
  // which is copied to the output right after the step that writes it.
  void give_format(const Output& output);
  // The offsets in the arena of the values between steps.
  std::unordered_map<Id, size_t> place_values(size_t& arena_bytes) const;

  const Region& region_;
  PackedWeights& packed_;
  bool fast_math_;
  size_t written_;
  ConcatChains concat_chains_;
  std::unordered_map<Id, Slot> slots_;
  std::unordered_map<Id, TensorDesc> descs_;
  std::unordered_map<Id, const void*> constants_;
  mutable std::unordered_set<Id> used_constants_;  // read by constant()
  std::unordered_map<Id, size_t> last_partition_;  // the last that reads a value
  std::unordered_map<Id, Root> aliases_;
  std::unordered_set<Id> has_aliases_;
  std::unordered_map<Id, DataType> new_types_;
  std::map<std::pair<Id, std::string>, std::vector<Id>> derived_;
  std::vector<std::unique_ptr<Step>> steps_;
  size_t current_ = 0;
  std::unordered_set<size_t> fused_;  // partitions fused into an earlier step
  Id next_ = 0;
};

}  // namespace cpuaccel::plan
