// A step that is one call of a function.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "graph/build.h"

namespace cpuaccel::graph {

class FunctionStep : public Step {
 public:
  using Function = std::function<void(std::span<void* const> in, std::span<void* const> out)>;

  FunctionStep(std::vector<Id> from, Id to, TensorDesc desc, Function function)
      : function_(std::move(function)) {
    inputs = std::move(from);
    outputs = {to};
    output_descs = {std::move(desc)};
  }

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    function_(in, out);
  }

 private:
  Function function_;
};

}  // namespace cpuaccel::graph
