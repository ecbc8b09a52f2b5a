// One thing that a compiled program does: reads values, writes values.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/facts.h"
#include "graph/program.h"
#include "graph/tensor_desc.h"

namespace cpuaccel::graph {

// Safe to run from several threads at once.
class Step {
 public:
  virtual ~Step() = default;

  // What `run` gets, in order, and how the outputs lie.
  std::vector<Id> inputs, outputs;
  std::vector<TensorDesc> output_descs;
  // The input over which the first output is written: both get the same memory.
  std::optional<Id> over;
  StepFacts facts;
  // How many bytes it reads and writes, where that is less than all of its values.
  std::optional<double> moved_bytes;
  // What it multiplies in, where that is not its source's type.
  std::optional<DataType> arithmetic;

  // Whose code runs, and its name for that; it may be known after a run only.
  virtual std::string kernel() const = 0;

  // Before the first run: what takes time, such as generating code.
  virtual void prepare() {}
  virtual void run(std::span<void* const> in, std::span<void* const> out) const = 0;

  // Whether runs read every input where it lies: nothing is made of constants before.
  virtual bool keeps_nothing() const { return false; }

  // Whether parallel_for alone splits up what it does, as a team's threads need; after a run.
  virtual bool fits_team() const { return false; }
};

}  // namespace cpuaccel::graph
