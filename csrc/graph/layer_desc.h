// A layer's primitive, with where it reads and writes.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "graph/primitive_step.h"

namespace cpuaccel::graph {

struct LayerDesc {
  dnnl::primitive_desc_base desc;
  // Of slices, by argument: the bytes before the slice's first.
  std::map<int, size_t> first = {};
};

// The layer's source, bias and operands, which a step gets in that order.
std::vector<PrimitiveStep::Argument> inputs_of(const LayerDesc& layer);

// The step of `layer`, in one or more slices, that reads what inputs_of() says, then `more`.
// `held` is its own.
std::unique_ptr<Step> step_of(const std::vector<LayerDesc>& layer,
                              const std::vector<PrimitiveStep::Argument>& more,
                              const std::vector<PrimitiveStep::Argument>& held,
                              std::optional<kernels::FloatFunction> behind);

}  // namespace cpuaccel::graph
