// What a layer's oneDNN primitive reads and which post-ops it applies, for the whole layer or for
// slices.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "plan/layer_desc.h"
#include "plan/layer_shape.h"
#include "plan/layer_tuning.h"

namespace cpuaccel::plan {

// All post-ops, and all but the last one.
struct PostOps {
  dnnl::post_ops all, but_last;

  dnnl::primitive_attr attr(LayerVariant variant) const {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attr.set_post_ops(variant.eltwise_after ? but_last : all);
    return attr;
  }
};

struct Form {
  Shaped shaped;
  PostOps post_ops;
  std::map<int, Id> ids = {};          // inputs, by argument
  std::map<int, size_t> first = {};    // bytes before the slice, by argument; also for dst
  std::optional<Id> overwritten = {};  // the input that dst overwrites

  // The primitive of `variant`. Throws dnnl::error if there is none.
  LayerDesc desc(LayerVariant variant, const dnnl::memory::desc& weights) const;
};

// The form of `layer` with the input `src`; nullopt if a post-op's operand cannot be passed to
// oneDNN.
std::optional<Form> form_of(const Building& building, const Layer& layer, Id src, Shaped shaped);

// Splits `whole` into slices, one for each of torch's threads. Empty if it cannot be split.
std::vector<Form> slices_of(const Building& building, const Layer& layer, const Form& whole);

// The primitives of `slices`. Each is made for one thread; if there is one form only, it is made
// for all threads. All have the same implementation, and the weights' layout of the first one.
// Throws dnnl::error if there are none.
std::vector<LayerDesc> descs_of(const std::vector<Form>& slices, LayerVariant variant,
                                const dnnl::memory::desc& weights);

}  // namespace cpuaccel::plan
