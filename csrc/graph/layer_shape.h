// Layers as oneDNN's primitives take them.
#pragma once

#include <functional>
#include <optional>

#include "graph/build.h"
#include "graph/layer.h"

namespace cpuaccel::graph {

// Where the taps of a convolution lie, by spatial dimension.
struct Window {
  Sizes strides, begin, end;
  Sizes holes;  // between taps: oneDNN's dilations
};

// A tensor that begins with the number `first` of another one.
struct Placed {
  TensorDesc desc;
  int64_t first = 0;
};

// The implementation of that number (dnnl/implementations.h). Throws dnnl::error.
using MakeDesc = std::function<dnnl::primitive_desc_base(
    const dnnl::memory::desc& weights, const dnnl::primitive_attr& attr, int implementation)>;

struct Shaped {
  TensorDesc src, weights, dst;
  int64_t src_first = 0, dst_first = 0;  // of slices: the numbers that they begin with
  // The place of an operand of a post-op, as a tensor of as many dimensions as dst.
  std::function<std::optional<Placed>(const TensorDesc&)> operand;
  MakeDesc make;
  TensorDesc result;  // dst as the program has it
  // Groups of the weights of `layer` that are one of these (graph/wide_groups.h).
  int64_t groups_at_once = 1;
  // Of convolutions: where the taps lie, and what makes one of another source, window and dst.
  Window window = {};
  std::function<MakeDesc(const TensorDesc& src, const Window& window, const TensorDesc& dst)>
      remake = {};
};

// `layer` of `src`, which becomes a copy where that does not lie as it has to: a step is added.
// Nothing where oneDNN has no such layer.
std::optional<Shaped> shape_layer(Building& building, const Layer& layer, Id& src);

}  // namespace cpuaccel::graph
