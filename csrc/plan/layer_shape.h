// Sizes, layouts and primitive descriptors of convolutions and matrix products, as oneDNN takes
// them.
#pragma once

#include <functional>
#include <optional>

#include "plan/build.h"
#include "plan/layer.h"

namespace cpuaccel::plan {

// The taps of a convolution, by spatial dimension.
struct Window {
  Sizes strides, begin, end;
  Sizes holes;  // between taps: oneDNN's dilations (0: none)
};

// A view of another tensor, which begins at that tensor's element `first`.
struct Placed {
  TensorDesc desc;
  int64_t first = 0;
};

// Makes the primitive of the implementation with that number (dnnl/implementations.h). Throws
// dnnl::error.
using MakeDesc = std::function<dnnl::primitive_desc_base(
    const dnnl::memory::desc& weights, const dnnl::primitive_attr& attr, int implementation)>;

struct Shaped {
  TensorDesc src, weights, dst;
  int64_t src_first = 0, dst_first = 0;  // of slices: their first elements
  // A post-op's operand as a tensor with as many dimensions as dst; nullopt if it cannot be one.
  std::function<std::optional<Placed>(const TensorDesc&)> operand;
  MakeDesc make;
  TensorDesc result;  // dst as the region has it
  // How many groups of the layer's weights are merged into one (plan/merged_groups.h).
  int64_t merged_groups = 1;
  // For convolutions: the taps, and what makes a MakeDesc for another src, window and dst.
  Window window = {};
  std::function<MakeDesc(const TensorDesc& src, const Window& window, const TensorDesc& dst)>
      remake = {};
};

// Shapes `layer` with the input `src`. If the layout of `src` does not fit, adds a step that copies
// it and sets `src` to the copy. nullopt if oneDNN has no such layer.
std::optional<Shaped> shape_layer(Building& building, const Layer& layer, Id& src);

}  // namespace cpuaccel::plan
