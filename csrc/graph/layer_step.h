// Layers as primitives: weights packed once, what follows as post-ops.
#pragma once

#include <optional>
#include <vector>

#include "graph/build.h"
#include "graph/layer.h"
#include "graph/layer_desc.h"

namespace cpuaccel::graph {

// Adds the steps that compute layer.dst. False where oneDNN has nothing fast for it; what was added
// by then, copies of its source, is the caller's to take back.
bool add_layer(Building& building, const Layer& layer);

// The primitives that add_layer() takes.
struct LayerPrimitives {
  std::vector<LayerDesc> descs;  // one, or one for each slice
  std::optional<kernels::FloatFunction> behind;
  dnnl::primitive_desc_base whole;  // of all of it, by oneDNN's choice
};
// Nothing where add_layer() adds nothing. Throws dnnl::error where oneDNN has no such primitive.
std::optional<LayerPrimitives> primitives_of(Building& building, const Layer& layer);

}  // namespace cpuaccel::graph
