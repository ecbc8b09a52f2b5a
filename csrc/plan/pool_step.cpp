#include "plan/pool_step.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/engine.h"
#include "plan/global_pooling.h"
#include "plan/layer_tuning.h"
#include "plan/primitive_step.h"

namespace cpuaccel::plan {
namespace {

using dnnl::memory;
using Kind = dnnl::graph::op::kind;

constexpr size_t kSpatial = 2;  // the batch and the channels come before

// A window and its place on the image, by spatial dimension. `holes` are dilations minus 1, as in
// oneDNN's primitives.
struct PoolWindow {
  Sizes kernel, strides, holes, begin, end;
};

PoolWindow window_of(const Attributes& attributes) {
  const auto numbers = [&](std::string_view name) { return attribute(attributes, name, Sizes{}); };
  PoolWindow window{numbers("kernel"), numbers("strides"), numbers("dilations"),
                    numbers("pads_begin"), numbers("pads_end")};
  window.holes.resize(window.kernel.size(), 1);
  std::ranges::transform(window.holes, window.holes.begin(), [](int64_t each) { return each - 1; });
  return window;
}

// The sizes of the result. With ceil, a window may reach beyond the padding: `window` then gets
// more of it.
Sizes pooled(const Sizes& src, PoolWindow& window, bool ceil) {
  Sizes sizes(src.begin(), src.begin() + kSpatial);
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    const int64_t size = src[kSpatial + i], stride = window.strides[i];
    const int64_t reach = (window.kernel[i] - 1) * (window.holes[i] + 1) + 1;
    const int64_t room = size + window.begin[i] + window.end[i] - reach;
    int64_t count = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    // A window that begins in the padding behind the image is left out.
    count -= ceil && (count - 1) * stride >= size + window.begin[i] ? 1 : 0;
    window.end[i] = std::max(window.end[i], (count - 1) * stride + reach - size - window.begin[i]);
    sizes.push_back(count);
  }
  return sizes;
}

dnnl::algorithm algorithm_of(const Operation& pool) {
  if (pool.kind == Kind::MaxPool) {
    return dnnl::algorithm::pooling_max;
  }
  return attribute(pool.attributes, "exclude_pad", false)
             ? dnnl::algorithm::pooling_avg_exclude_padding
             : dnnl::algorithm::pooling_avg_include_padding;
}

}  // namespace

DeclineReason make_pool(StepRequest& request) {
  auto& building = request.building;
  const Operation& pool = request.first();
  if (request.partition().operations.size() != 1 ||
      (pool.kind != Kind::MaxPool && pool.kind != Kind::AvgPool)) {
    return "not a single pooling";
  }
  const bool is_global = is_global_pooling(pool);
  if (pool.kind == Kind::AvgPool && !is_global && !pool.attributes.contains("exclude_pad")) {
    return "an average that does not say what it divides by";  // oneDNN Graph rejects it
  }
  const Id src = pool.inputs[0], dst = pool.outputs[0];
  const auto& desc = building.desc(src);
  const auto format = memory_format_of(desc);
  if (!format || attribute(pool.attributes, "data_format", std::string("NXC")) != "NCX" ||
      attribute(pool.attributes, "auto_pad", std::string("None")) != "None") {
    return "not a dense image, or padding that depends on its size";
  }
  PoolWindow window = window_of(is_global ? with_window(pool, desc.sizes) : pool.attributes);
  const bool ceil = attribute(pool.attributes, "rounding_type", std::string("floor")) == "ceil";
  const Sizes padding = window.end;
  const TensorDesc result = dense(pooled(desc.sizes, window, ceil), *format);
  if (pool.kind == Kind::AvgPool && window.end != padding) {
    return "an average over windows beyond the padding";  // torch divides by what is inside
  }
  const auto type = building.type(src);
  const auto from = memory_desc(type, desc), to = memory_desc(type, result);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::pooling_forward::primitive_desc made;
  try {
    made = {engine(),
            dnnl::prop_kind::forward_inference,
            algorithm_of(pool),
            from,
            to,
            window.strides,
            window.kernel,
            window.holes,
            window.begin,
            window.end,
            attr};
  } catch (const dnnl::error&) {
    return kSlowInOnednn;
  }
  if (is_reference(made)) {
    return kSlowInOnednn;
  }
  std::vector<PrimitiveStep::Argument> in, out;
  in.push_back({.argument = DNNL_ARG_SRC, .desc = from});
  out.push_back({.argument = DNNL_ARG_DST, .desc = to});
  auto step = std::make_unique<PrimitiveStep>(made, std::move(in), std::move(out),
                                              std::vector<PrimitiveStep::Argument>{});
  step->inputs = {src};
  step->outputs = {dst};
  step->output_descs = {result};
  building.add(std::move(step));
  return kAdded;
}

}  // namespace cpuaccel::plan
