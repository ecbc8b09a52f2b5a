// The plan of a region for inputs of given sizes: its steps, and the memory of every value, which
// is part of the inputs, constants, outputs or arena.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/api.h"
#include "plan/packed_weights.h"
#include "plan/region.h"
#include "plan/step.h"
#include "plan/step_teams.h"

namespace cpuaccel::plan {

// An observer of a run: it is called when a step begins and when it ends.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void begin(size_t number, const Step& step) = 0;
  virtual void end(size_t number) = 0;
};

// Safe to run from several threads at once.
class CPUACCEL_API Plan {
 public:
  // `inputs` are in the region's order, `constants` in the order of Region::all_constants().
  // `constant_data` is read here. `fast_math`: f32 layers multiply in bfloat16. `written`: runs
  // mutate the first `written` inputs. They are the memory of the last `written` outputs, in order.
  // Each of these outputs is its input with a slice written to it (may_be_in_place()). Throws
  // dnnl::error or std::runtime_error where oneDNN cannot do it.
  Plan(const Region& region, std::span<const TensorDesc> inputs,
       std::span<const TensorDesc> constants, std::span<const void* const> constant_data,
       PackedWeights& packed, bool fast_math = false, size_t written = 0);

  // In the region's order, without those that are mutated inputs.
  const std::vector<TensorDesc>& outputs() const { return outputs_; }
  // By the constant's number: whether runs read the constant itself. Of packed weights they read a
  // copy.
  const std::vector<bool>& reads_constant() const { return reads_constant_; }
  // By the constant's number: whether the plan has something made of the constant, so that runs
  // depend on its content at that time.
  const std::vector<bool>& depends_on_constant() const { return depends_on_constant_; }
  // Size of the arena that `run` needs.
  size_t arena_bytes() const { return arena_bytes_; }

  // `observer` is told of every step, unless it is null.
  void run(std::span<void* const> inputs, std::span<void* const> constants,
           std::span<void* const> outputs, std::byte* arena,
           StepObserver* observer = nullptr) const;

  size_t step_count() const { return steps_.size(); }
  const Step& step(size_t number) const { return *steps_[number].step; }

 private:
  enum class Place { input, constant, output, arena };
  struct Slot {
    Place place;
    size_t at;          // number of the tensor, or offset in the arena in bytes
    size_t offset = 0;  // bytes, added to that
  };
  struct PlacedStep {
    std::unique_ptr<Step> step;
    std::vector<Slot> inputs, outputs;
  };
  class Builder;
  friend std::vector<std::string> uncompilable_reasons(const Region& region);

  std::vector<PlacedStep> steps_;
  mutable StepTeams teams_{0};
  std::vector<TensorDesc> outputs_;
  std::vector<bool> reads_constant_, depends_on_constant_;
  size_t arena_bytes_ = 0;
};

// For each partition of `region` the reason why it has no step for the traced sizes; empty if it
// has one.
CPUACCEL_API std::vector<std::string> uncompilable_reasons(const Region& region);

}  // namespace cpuaccel::plan
