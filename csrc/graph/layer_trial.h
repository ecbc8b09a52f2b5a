// Which way of running a layer of floats is the fastest, found out by running all of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/layer_desc.h"

namespace cpuaccel::graph {

struct LayerWay {
  int implementation = 0;        // dnnl/implementations.h
  bool function_behind = false;  // the last post-op by our kernel, behind the primitive
  bool sliced = false;           // a primitive for each thread (graph/layer_slices.h)
};

// The primitives of a way, one but for slices. Throws dnnl::error where there are none.
using DescsOfWay = std::function<std::vector<LayerDesc>(LayerWay)>;

// The way that is clearly faster than oneDNN's own choice on this machine: as it is known
// (dnnl/ranks.h) by the text of `problem`, or timed now on data of its own, some milliseconds.
// oneDNN's choice where timing is off. `function` is the last post-op's, if ours may be behind.
// Where the layer `may_be_sliced`, it is unless another way clearly wins: in a team it wins more.
LayerWay fastest_way(const std::string& problem, std::optional<kernels::FloatFunction> function,
                     bool may_be_sliced, const DescsOfWay& descs_of);

// Whether oneDNN has nothing but a reference.
bool is_slow(const dnnl::primitive_desc_base& desc);

}  // namespace cpuaccel::graph
