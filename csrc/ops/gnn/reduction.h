// The names of torch's reductions by an index.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/scatter/scatter.h"

namespace cpuaccel::ops {

struct Reduction {
  kernels::ScatterOp op;
  bool mean = false;

  // The result is one of the terms.
  bool takes_one() const {
    return op == kernels::ScatterOp::amax || op == kernels::ScatterOp::amin;
  }
};

// Nothing for what is none.
inline std::optional<Reduction> reduction_of(std::string_view name) {
  using kernels::ScatterOp;
  if (name == "sum" || name == "mean") {
    return Reduction{ScatterOp::sum, name == "mean"};
  }
  if (name == "prod") {
    return Reduction{ScatterOp::product};
  }
  if (name == "amax" || name == "amin") {
    return Reduction{name == "amax" ? ScatterOp::amax : ScatterOp::amin};
  }
  return std::nullopt;
}

}  // namespace cpuaccel::ops
