// A plan step made of several oneDNN primitives, each of which computes a slice of the output on
// one thread.
#pragma once

#include <memory>
#include <vector>

#include "plan/primitive_step.h"

namespace cpuaccel::plan {

class SlicedStep : public Step {
 public:
  // All slices get the same memory; each reads and writes it from its own offsets on.
  explicit SlicedStep(std::vector<std::unique_ptr<PrimitiveStep>> slices);

  void prepare() override;
  void run(std::span<void* const> in, std::span<void* const> out) const override;
  std::string kernel() const override;
  bool fits_team() const override { return true; }

 private:
  std::vector<std::unique_ptr<PrimitiveStep>> slices_;
};

}  // namespace cpuaccel::plan
