// Step: one entry of a plan. It reads values and writes values.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/facts.h"
#include "plan/region.h"
#include "plan/tensor_desc.h"

namespace cpuaccel::plan {

// Safe to run from several threads at once.
class Step {
 public:
  virtual ~Step() = default;

  // The values that `run` gets, in order, and the layouts of the outputs.
  std::vector<Id> inputs, outputs;
  std::vector<TensorDesc> output_descs;
  // The input that the first output overwrites: both get the same memory.
  std::optional<Id> overwritten;
  StepFacts facts;
  // How many bytes it reads, and as many writes, if that is less than all of its values.
  std::optional<double> moved_bytes;
  // How many bytes it reads, if its operation's inputs are not what it reads: packed weights.
  std::optional<double> read_bytes;
  // The dtype that it multiplies in, if that is not its source's.
  std::optional<DataType> arithmetic;

  // The library whose code runs, and the kernel's name; it may be known only after a run.
  virtual std::string kernel() const = 0;

  // Called before the first run. It does what takes time, such as generating code.
  virtual void prepare() {}
  virtual void run(std::span<void* const> in, std::span<void* const> out) const = 0;

  // Whether runs read every input in place, so nothing is made of constants before.
  virtual bool reads_in_place() const { return false; }

  // Whether only parallel_for splits up its work, as a team's threads need (base/team.h). Known
  // after a run.
  virtual bool fits_team() const { return false; }
};

}  // namespace cpuaccel::plan
