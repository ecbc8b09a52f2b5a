// Tuning of float layers: times the variants of a layer and picks the fastest.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/layer_desc.h"

namespace cpuaccel::plan {

struct LayerVariant {
  int implementation = 0;      // dnnl/implementations.h
  bool eltwise_after = false;  // cpuaccel's kernel applies the last post-op afterwards
  bool sliced = false;         // a primitive for each thread (plan/layer_slices.h)
};

// The primitives of a variant: one, or one for each slice. Throws dnnl::error if there are none.
using DescsOfVariant = std::function<std::vector<LayerDesc>(LayerVariant)>;

// The variant that is clearly faster than oneDNN's own choice on this machine, else oneDNN's
// choice. The tuning cache has it by `key` (dnnl/tuning_cache.h). If it does not, all variants are
// timed now on data of their own, which takes some milliseconds. With tuning off it is oneDNN's
// choice. `eltwise` is the last post-op if cpuaccel's kernel may apply it. If the layer
// `may_be_sliced`, it is sliced unless another variant is clearly faster, because slices gain more
// in a team.
LayerVariant fastest_variant(const std::string& key, Activation eltwise, bool may_be_sliced,
                             const DescsOfVariant& descs_of);

// Whether it is one of oneDNN's reference implementations.
bool is_reference(const dnnl::primitive_desc_base& desc);

}  // namespace cpuaccel::plan
