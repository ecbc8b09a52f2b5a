// Which way of running a layer of floats is the fastest, found out by running all of them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "dnnl/api.h"
#include "graph/float_function.h"

namespace cpuaccel::graph {

struct LayerWay {
  int implementation = 0;        // dnnl/implementations.h
  bool function_behind = false;  // the last post-op by our kernel, behind the primitive
};

// The primitive of a way. Throws dnnl::error where there is none.
using DescOfWay = std::function<dnnl::primitive_desc_base(LayerWay)>;

// The way that is clearly faster than oneDNN's own choice on this machine: as it is known
// (dnnl/ranks.h) by the text of `problem`, or timed now on data of its own, some milliseconds.
// oneDNN's choice where timing is off. `function` is the last post-op's, if ours may be behind.
LayerWay fastest_way(const std::string& problem, std::optional<kernels::FloatFunction> function,
                     const DescOfWay& desc_of);

// Whether oneDNN has nothing but a reference.
bool is_slow(const dnnl::primitive_desc_base& desc);

}  // namespace cpuaccel::graph
