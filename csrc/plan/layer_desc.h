// A layer's oneDNN primitive descriptor, with the offsets in memory where it reads and writes.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "plan/primitive_step.h"

namespace cpuaccel::plan {

struct LayerDesc {
  dnnl::primitive_desc_base desc;
  // For slices, by argument: the bytes before the slice's first element.
  std::map<int, size_t> first = {};
};

// The layer's src, bias and post-op operands, in the order in which a step receives them.
std::vector<PrimitiveStep::Argument> inputs_of(const LayerDesc& layer);

// The step of `layer`, which has one or more slices. It reads the inputs of inputs_of(), then
// `more`. It owns the memory of `bound`, and applies `eltwise` to its results.
std::unique_ptr<Step> step_of(const std::vector<LayerDesc>& layer,
                              const std::vector<PrimitiveStep::Argument>& more,
                              const std::vector<PrimitiveStep::Argument>& bound,
                              Activation eltwise);

}  // namespace cpuaccel::plan
