// A step that is several primitives, each of which writes a part of the results on one thread.
#pragma once

#include <memory>
#include <vector>

#include "graph/primitive_step.h"

namespace cpuaccel::graph {

class SlicedStep : public Step {
 public:
  // Slices that read and write the same memory, from places of their own on.
  explicit SlicedStep(std::vector<std::unique_ptr<PrimitiveStep>> slices);

  void prepare() override;
  void run(std::span<void* const> in, std::span<void* const> out) const override;
  std::string kernel() const override;
  bool fits_team() const override { return true; }

 private:
  std::vector<std::unique_ptr<PrimitiveStep>> slices_;
};

}  // namespace cpuaccel::graph
