// Layers as primitives: weights packed once, what follows as post-ops.
#pragma once

#include "graph/build.h"
#include "graph/layer.h"

namespace cpuaccel::graph {

// Adds the steps that compute layer.dst. False, and nothing added, where oneDNN has nothing fast
// for it.
bool add_layer(Building& building, const Layer& layer);

}  // namespace cpuaccel::graph
