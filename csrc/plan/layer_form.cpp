#include "plan/layer_form.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "dnnl/one_thread.h"
#include "plan/layer_slices.h"

namespace cpuaccel::plan {

using dnnl::memory;

std::optional<Form> form_of(const Building& building, const Layer& layer, Id src, Shaped shaped) {
  Form form{std::move(shaped), {}};
  const auto add = [&](int argument, Id id, int64_t numbers) {
    form.ids.emplace(argument, id);
    form.first.emplace(argument, static_cast<size_t>(numbers * data_type_size(building.type(id))));
  };
  add(DNNL_ARG_SRC, src, form.shaped.src_first);
  form.first.emplace(DNNL_ARG_DST, static_cast<size_t>(form.shaped.dst_first *
                                                       data_type_size(building.type(layer.dst))));
  const auto is_read = [&](Id id) {
    return std::any_of(form.ids.begin(), form.ids.end(),
                       [&](const auto& each) { return each.second == id; });
  };
  // Both get the post-op appended separately, because copies of dnnl::post_ops share one handle.
  const auto append = [&](const FloatPostOp& post_op, const auto& to) {
    to(form.post_ops.all);
    if (&post_op != &layer.post_ops.back()) {
      to(form.post_ops.but_last);
    }
  };
  for (const auto& post_op : layer.post_ops) {
    if (!post_op.operand) {
      append(post_op, [&](dnnl::post_ops& to) {
        to.append_eltwise(post_op.algorithm, post_op.alpha, post_op.beta);
      });
      continue;
    }
    const Id id = *post_op.operand;
    const auto& layout = building.desc(id);
    if (post_op.algorithm == dnnl::algorithm::binary_add && !form.overwritten && !is_read(id) &&
        id != layer.weights && layout == form.shaped.result &&
        building.type(id) == building.type(layer.dst) && building.may_overwrite(layer.dst, id)) {
      form.overwritten = id;
      append(post_op, [](dnnl::post_ops& to) { to.append_sum(1.0f); });
      continue;
    }
    const auto operand = form.shaped.operand(layout);
    if (!operand) {
      return std::nullopt;
    }
    const auto desc = memory_desc(building.type(id), operand->desc);
    add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(form.post_ops.all.len()) | DNNL_ARG_SRC_1, id,
        operand->first);
    append(post_op, [&](dnnl::post_ops& to) { to.append_binary(post_op.algorithm, desc); });
  }
  if (form.overwritten && is_read(*form.overwritten)) {
    return std::nullopt;  // another post-op reads it after it is overwritten
  }
  if (layer.bias) {
    add(DNNL_ARG_BIAS, *layer.bias, 0);
  }
  return form;
}

std::vector<Form> slices_of(const Building& building, const Layer& layer, const Form& whole) {
  std::vector<Form> slices;
  for (auto& slice : slices_of(whole.shaped, parallel_threads())) {
    auto form = form_of(building, layer, whole.ids.at(DNNL_ARG_SRC), std::move(slice));
    if (!form) {
      return {};
    }
    slices.push_back(std::move(*form));
  }
  return slices;
}

LayerDesc Form::desc(LayerVariant variant, const memory::desc& weights) const {
  return {shaped.make(weights, post_ops.attr(variant), variant.implementation), first};
}

std::vector<LayerDesc> descs_of(const std::vector<Form>& slices, LayerVariant variant,
                                const memory::desc& weights) {
  std::optional<dnnl_layer::OneThread> one;
  if (slices.size() > 1) {
    one.emplace();
  }
  std::vector<LayerDesc> descs{slices.front().desc(variant, weights)};
  const std::string name = descs.front().desc.impl_info_str();
  const auto packed = descs.front().desc.query_md(dnnl::query::weights_md);
  for (auto slice = slices.begin() + 1; slice != slices.end(); ++slice) {
    variant.implementation = 0;
    descs.push_back(slice->desc(variant, packed));
    while (name != descs.back().desc.impl_info_str()) {
      ++variant.implementation;
      descs.back() = slice->desc(variant, packed);
    }
  }
  return descs;
}

}  // namespace cpuaccel::plan
