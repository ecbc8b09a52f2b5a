// Convolutions and matrix products as oneDNN primitives, with weights packed once and post-ops
// fused.
#pragma once

#include <optional>
#include <vector>

#include "plan/layer_desc.h"
#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h).
DeclineReason make_layer(StepRequest& request);

// Adds the steps that compute layer.dst. Returns false if oneDNN has no fast primitive for it. The
// caller then removes the steps added so far, which copy the source.
bool add_layer(Building& building, const Layer& layer);

// The primitives that add_layer() uses.
struct LayerPrimitives {
  std::vector<LayerDesc> descs;  // one, or one for each slice
  Activation eltwise = Activation::none;
  dnnl::primitive_desc_base whole;  // unsliced, by oneDNN's choice
};
// nullopt where add_layer() adds nothing. Throws dnnl::error if oneDNN has no such primitive.
std::optional<LayerPrimitives> primitives_of(Building& building, const Layer& layer);

}  // namespace cpuaccel::plan
