// Parses the `reduce` argument of graph ops.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/reduce.h"
#include "kernels/scatter/scatter.h"

namespace cpuaccel::ops {

// nullopt for any other name. segment_reduce has other names for amax and amin.
inline std::optional<kernels::Reduce> reduce_of(std::string_view name,
                                                std::string_view amax = "amax",
                                                std::string_view amin = "amin") {
  using kernels::Reduce;
  return name == "sum"    ? std::optional(Reduce::sum)
         : name == "mean" ? std::optional(Reduce::mean)
         : name == amax   ? std::optional(Reduce::amax)
         : name == amin   ? std::optional(Reduce::amin)
                          : std::nullopt;
}

// Whether the result is one of the terms.
inline bool takes_one(kernels::Reduce reduce) {
  return reduce == kernels::Reduce::amax || reduce == kernels::Reduce::amin;
}

// The reduction of scatter_reduce and index_reduce.
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
  using kernels::Reduce, kernels::ScatterOp;
  if (name == "prod") {
    return Reduction{ScatterOp::product};
  }
  const auto reduce = reduce_of(name);
  if (!reduce) {
    return std::nullopt;
  }
  return Reduction{*reduce == Reduce::amax   ? ScatterOp::amax
                   : *reduce == Reduce::amin ? ScatterOp::amin
                                             : ScatterOp::sum,
                   *reduce == Reduce::mean};
}

}  // namespace cpuaccel::ops
