// Parses the `reduce` argument of scatter_reduce and index_reduce.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/scatter/scatter.h"

namespace cpuaccel::ops {

struct Reduction {
  kernels::ScatterOp op;
  bool mean = false;

  // Whether the result is one of the messages.
  bool takes_one() const {
    return op == kernels::ScatterOp::amax || op == kernels::ScatterOp::amin;
  }
};

// nullopt for any other name.
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
