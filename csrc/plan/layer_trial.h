// Tuning of float layers: times all ways to run a layer and picks the fastest.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/layer_desc.h"

namespace cpuaccel::plan {

struct LayerWay {
  int implementation = 0;        // dnnl/implementations.h
  bool function_behind = false;  // cpuaccel's kernel applies the last post-op afterwards
  bool sliced = false;           // a primitive for each thread (plan/layer_slices.h)
};

// The primitives of a way: one, or one for each slice. Throws dnnl::error if there are none.
using DescsOfWay = std::function<std::vector<LayerDesc>(LayerWay)>;

// The way that is clearly faster than oneDNN's own choice on this machine, else oneDNN's choice. It
// is cached by the text `problem` (dnnl/ranks.h). If it is not, all ways are timed now on data of
// their own, which takes some milliseconds. With tuning off it is oneDNN's choice. `function` is
// the last post-op if cpuaccel's kernel may apply it. If the layer `may_be_sliced`, it is sliced
// unless another way is clearly faster, because slices gain more in a team.
LayerWay fastest_way(const std::string& problem, std::optional<kernels::FloatFunction> function,
                     bool may_be_sliced, const DescsOfWay& descs_of);

// Whether it is one of oneDNN's reference implementations.
bool is_slow(const dnnl::primitive_desc_base& desc);

}  // namespace cpuaccel::plan
