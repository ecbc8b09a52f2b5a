#include "plan/layer_desc.h"

#include <utility>

#include "plan/sliced_step.h"

namespace cpuaccel::plan {
namespace {

using Argument = PrimitiveStep::Argument;

Argument argument(const LayerDesc& layer, int number, const dnnl::memory::desc& desc) {
  const auto first = layer.first.find(number);
  return {number, desc, {}, first == layer.first.end() ? 0 : first->second};
}

}  // namespace

std::vector<Argument> inputs_of(const LayerDesc& layer) {
  const auto& desc = layer.desc;
  std::vector<Argument> inputs{argument(layer, DNNL_ARG_SRC, desc.query_md(dnnl::query::src_md))};
  if (const auto bias = desc.query_md(dnnl::query::weights_md, 1); !bias.is_zero()) {
    inputs.push_back(argument(layer, DNNL_ARG_BIAS, bias));
  }
  const auto post_ops = desc.get_primitive_attr().get_post_ops();
  for (int i = 0; i < post_ops.len(); ++i) {
    if (post_ops.kind(i) == dnnl::primitive::kind::binary) {
      dnnl::algorithm algorithm{};
      dnnl::memory::desc operand;
      post_ops.get_params_binary(i, algorithm, operand);
      inputs.push_back(
          argument(layer, DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1, operand));
    }
  }
  return inputs;
}

std::unique_ptr<Step> step_of(const std::vector<LayerDesc>& layer,
                              const std::vector<Argument>& more, const std::vector<Argument>& bound,
                              Activation eltwise) {
  std::vector<std::unique_ptr<PrimitiveStep>> slices;
  for (const auto& slice : layer) {
    auto inputs = inputs_of(slice);
    inputs.insert(inputs.end(), more.begin(), more.end());
    std::vector<Argument> out{
        argument(slice, DNNL_ARG_DST, slice.desc.query_md(dnnl::query::dst_md))};
    slices.push_back(
        std::make_unique<PrimitiveStep>(slice.desc, std::move(inputs), std::move(out), bound));
    slices.back()->eltwise = eltwise;
  }
  if (slices.size() == 1) {
    return std::move(slices.front());
  }
  return std::make_unique<SlicedStep>(std::move(slices));
}

}  // namespace cpuaccel::plan
