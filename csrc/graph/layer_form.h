// A layer and what its primitive reads and does with results, whole and in slices.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "graph/layer_desc.h"
#include "graph/layer_shape.h"
#include "graph/layer_trial.h"

namespace cpuaccel::graph {

// What is done with results, all of it and but for the last.
struct PostOps {
  dnnl::post_ops all, but_last;

  dnnl::primitive_attr attr(LayerWay way) const {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attr.set_post_ops(way.function_behind ? but_last : all);
    return attr;
  }
};

struct Form {
  Shaped shaped;
  PostOps post_ops;
  std::map<int, Id> ids = {};        // what is read, by argument
  std::map<int, size_t> first = {};  // bytes before the slice, of the results as well
  std::optional<Id> over = {};       // what results are written over

  // The primitive of a way. Throws dnnl::error where there is none.
  LayerDesc desc(LayerWay way, const dnnl::memory::desc& weights) const;
};

// `layer` of `src`, shaped so; nothing where a post-op's operand cannot be one.
std::optional<Form> form_of(const Building& building, const Layer& layer, Id src, Shaped shaped);

// `whole` in slices, one for each of torch's threads; none where that cannot be.
std::vector<Form> slices_of(const Building& building, const Layer& layer, const Form& whole);

// The primitives of slices, made for one thread each; of one form that for all threads. All are of
// one implementation, on weights as the first one has them.
// Throws dnnl::error where there are none.
std::vector<LayerDesc> descs_of(const std::vector<Form>& slices, LayerWay way,
                                const dnnl::memory::desc& weights);

}  // namespace cpuaccel::graph
