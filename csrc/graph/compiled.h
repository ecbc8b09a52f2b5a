// A program made ready for inputs of some sizes: steps, and a place for every value between them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/packed_weights.h"
#include "graph/program.h"
#include "graph/step.h"
#include "graph/step_teams.h"

namespace cpuaccel::graph {

// Who hears when a step begins and when it ends.
class StepWatch {
 public:
  virtual ~StepWatch() = default;
  virtual void begin(size_t number, const Step& step) = 0;
  virtual void end(size_t number) = 0;
};

// Safe to run from several threads at once.
class CompiledProgram {
 public:
  // `inputs` are in the program's order, `constants` in that of Program::all_constants;
  // `constant_data` is read now. `fast_math`: layers of floats multiply in bfloat16. `written`: so
  // many of the first inputs runs write to, in the place of as many of the last outputs, each of
  // which is made of its input alone by writing to a slice of it.
  // Throws dnnl::error or std::runtime_error where oneDNN cannot do it.
  CompiledProgram(const Program& program, std::span<const TensorDesc> inputs,
                  std::span<const TensorDesc> constants, std::span<const void* const> constant_data,
                  PackedWeights& packed, bool fast_math = false, size_t written = 0);

  // In the program's order, without those that lie in inputs.
  const std::vector<TensorDesc>& outputs() const { return outputs_; }
  // Whether runs read the constant itself, by its number; of what is packed they read a copy.
  const std::vector<bool>& reads_constant() const { return reads_constant_; }
  // Whether something was made of the constant before: runs depend on what it was then.
  const std::vector<bool>& keeps_constant() const { return keeps_constant_; }
  // Of the block that `run` needs.
  size_t arena_bytes() const { return arena_bytes_; }

  // `watch`, if there is one, hears of every step.
  void run(std::span<void* const> inputs, std::span<void* const> constants,
           std::span<void* const> outputs, std::byte* arena, StepWatch* watch = nullptr) const;

  size_t step_count() const { return steps_.size(); }
  const Step& step(size_t number) const { return *steps_[number].step; }

 private:
  enum class Place { input, constant, output, arena };
  struct Slot {
    Place place;
    size_t at;          // number of the tensor, or offset in the arena
    size_t offset = 0;  // bytes from there on
  };
  struct PlacedStep {
    std::unique_ptr<Step> step;
    std::vector<Slot> inputs, outputs;
  };
  class Builder;
  friend std::vector<std::string> why_not_compiled(const Program& program);

  std::vector<PlacedStep> steps_;
  mutable StepTeams teams_{0};
  std::vector<TensorDesc> outputs_;
  std::vector<bool> reads_constant_, keeps_constant_;
  size_t arena_bytes_ = 0;
};

// For each partition of `program` why oneDNN does not run it for the sizes that it was traced with;
// empty where it does.
std::vector<std::string> why_not_compiled(const Program& program);

}  // namespace cpuaccel::graph
