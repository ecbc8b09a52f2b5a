#include "plan/layer_step.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnnl/tuning_cache.h"
#include "plan/dry_run.h"
#include "plan/layer_form.h"
#include "plan/merged_groups.h"

namespace cpuaccel::plan {
namespace {

using dnnl::memory;
using Argument = PrimitiveStep::Argument;

// Whether an f32 layer rounds its source and weights to bfloat16, the weights once.
bool multiplies_in_bf16(const Building& building, const Layer& layer) {
  return building.fast_math() && building.is_constant(layer.weights) &&
         building.type(layer.src) == DataType::f32 && building.type(layer.dst) == DataType::f32 &&
         building.type(layer.weights) == DataType::f32;
}

// The last post-op if cpuaccel's kernel may apply it after the primitive, else none.
Activation eltwise_at_end(const Building& building, const Layer& layer) {
  if (layer.post_ops.empty() || !is_f32_or_bf16(building.type(layer.dst))) {
    return Activation::none;
  }
  const Activation found = eltwise_of(layer.post_ops.back());
  return is_slow_in_onednn(found) ? found : Activation::none;
}

std::string text_of(const memory::desc& desc) {
  std::string text = std::to_string(static_cast<int>(desc.get_data_type()));
  for (const auto& numbers : {desc.get_dims(), desc.get_strides()}) {
    text += " ";
    for (const int64_t number : numbers) {
      text += "x" + std::to_string(number);
    }
  }
  return text;
}

// The key of the tuning cache: everything that decides which variant is the fastest.
std::string tuning_key(const Building& building, const Layer& layer, const Form& whole,
                       const std::vector<Form>& slices, DataType weights_type) {
  const auto& [shaped, post_ops, ids, first, overwritten] = whole;
  std::string text = "float " + layer.operation->name;
  for (const std::string_view name : {"strides", "pads_begin", "pads_end", "dilations"}) {
    for (const int64_t number : attribute(layer.operation->attributes, name, Sizes{})) {
      text += " " + std::to_string(number);
    }
    text += ";";
  }
  text += text_of(memory_desc(building.type(ids.at(DNNL_ARG_SRC)), shaped.src)) + ";";
  text += text_of(memory_desc(weights_type, shaped.weights)) + ";";
  text += text_of(memory_desc(building.type(layer.dst), shaped.dst)) + ";";
  text += layer.bias ? "bias;" : ";";
  for (int i = 0; i < post_ops.all.len(); ++i) {
    if (post_ops.all.kind(i) == dnnl::primitive::kind::binary) {
      dnnl::algorithm algorithm{};
      memory::desc operand;
      post_ops.all.get_params_binary(i, algorithm, operand);
      text += std::to_string(static_cast<int>(algorithm)) + " " + text_of(operand) + ";";
    } else if (post_ops.all.kind(i) == dnnl::primitive::kind::eltwise) {
      dnnl::algorithm algorithm{};
      float alpha = 0, beta = 0;
      post_ops.all.get_params_eltwise(i, algorithm, alpha, beta);
      text += std::to_string(static_cast<int>(algorithm)) + ";";
    } else {
      text += "sum;";
    }
  }
  return text + (slices.empty() ? "" : "slices;") + dnnl_layer::tuning_conditions();
}

// With more weights tuning would take long and gain little, because they are read from memory.
constexpr int64_t kMostTunedWeights = int64_t{1} << 24;

// The layout of a layer's weights before packing.
memory::desc plain_weights(const Building& building, const Layer& layer, const Shaped& shaped) {
  return memory_desc(building.type(layer.weights), shaped.weights);
}

// Whether a product reads constant weights where they lie, because no plan has packed them and
// there is no room for a packed copy. oneDNN then packs parts of them in each run.
bool stays_plain(Building& building, const Layer& layer, const Shaped& shaped, DataType type) {
  const auto plain = plain_weights(building, layer, shaped);
  return layer.kind == Layer::Kind::matmul && type == building.type(layer.weights) &&
         building.packed().layouts(layer.weights, plain).empty() &&
         !PackedWeights::has_room(plain.get_size());
}

// The weights' layout for a layer's primitives: any layout if they are constant and can be packed.
memory::desc weights_of(Building& building, const Layer& layer, const Shaped& shaped,
                        DataType type) {
  const auto plain = memory_desc(type, shaped.weights);
  return building.is_constant(layer.weights) && !stays_plain(building, layer, shaped, type)
             ? memory::desc{plain.get_dims(), plain.get_data_type(), memory::format_tag::any}
             : plain;
}

// The primitives of a variant. They use weights that are already packed for other sizes if the same
// implementation runs on them. Throws dnnl::error if there are none.
std::vector<LayerDesc> on_packed_weights(Building& building, const Layer& layer,
                                         const std::vector<Form>& forms, LayerVariant variant,
                                         const memory::desc& weights) {
  auto best = descs_of(forms, variant, weights);
  const auto wanted = best.front().desc.query_md(dnnl::query::weights_md);
  const std::string name = best.front().desc.impl_info_str();
  const auto plain = plain_weights(building, layer, forms.front().shaped);
  for (const auto& layout : building.packed().layouts(layer.weights, plain)) {
    if (layout == wanted) {
      break;
    }
    if (layout.get_data_type() != wanted.get_data_type()) {
      continue;
    }
    try {
      variant.implementation = 0;
      auto other = descs_of(forms, variant, layout);
      if (name == other.front().desc.impl_info_str()) {
        return other;
      }
    } catch (const dnnl::error&) {
      continue;
    }
  }
  return best;
}

// The variant of a layer: oneDNN's choice if tuning can gain nothing. Other implementations of
// matrix products are not faster.
LayerVariant variant_of(Building& building, const Layer& layer, const Form& whole,
                        const std::vector<Form>& slices, DataType weights_type) {
  const Activation eltwise = eltwise_at_end(building, layer);
  if ((layer.kind == Layer::Kind::matmul && eltwise == Activation::none) ||
      !building.is_constant(layer.weights) || building.constant(layer.weights) == nullptr ||
      count_of(whole.shaped.weights.sizes) > kMostTunedWeights) {
    return {};
  }
  const auto weights = weights_of(building, layer, whole.shaped, weights_type);
  return fastest_variant(tuning_key(building, layer, whole, slices, weights_type), eltwise,
                         !slices.empty(), [&](LayerVariant variant) {
                           return descs_of(variant.sliced ? slices : std::vector{whole}, variant,
                                           weights);
                         });
}

struct Prepared {
  Form whole;
  LayerVariant variant;
  std::vector<LayerDesc> descs;
  DataType weights_type;
};

// The layer's primitives by the fastest variant. Adds steps that convert the type or layout of its
// source.
std::optional<Prepared> prepare(Building& building, const Layer& layer) {
  Id src = layer.src;
  const bool fast = multiplies_in_bf16(building, layer);
  if (fast) {
    const TensorDesc layout = building.desc(src);
    src = building.new_value(DataType::bf16);
    add_copy(building, layer.src, src, layout);
  }
  auto shaped = shape_layer(building, layer, src);
  if (!shaped) {
    return std::nullopt;
  }
  auto whole = form_of(building, layer, src, std::move(*shaped));
  if (!whole) {
    return std::nullopt;
  }
  const auto slices = slices_of(building, layer, *whole);
  const auto weights_type = fast ? DataType::bf16 : building.type(layer.weights);
  auto variant = variant_of(building, layer, *whole, slices, weights_type);
  const auto described = [&] {
    return on_packed_weights(building, layer, variant.sliced ? slices : std::vector{*whole},
                             variant, weights_of(building, layer, whole->shaped, weights_type));
  };
  std::vector<LayerDesc> descs;
  try {
    descs = described();
  } catch (const dnnl::error&) {
    if (variant.implementation == 0 && !variant.sliced) {
      throw;
    }
    variant.implementation = 0;  // a cache file may name one that does not exist
    variant.sliced = false;
    descs = described();
  }
  if (is_reference(descs.front().desc)) {
    return std::nullopt;
  }
  return Prepared{std::move(*whole), variant, std::move(descs), weights_type};
}

Activation eltwise_after(const Building& building, const Layer& layer, LayerVariant variant) {
  return variant.eltwise_after ? eltwise_at_end(building, layer) : Activation::none;
}

}  // namespace

std::optional<LayerPrimitives> primitives_of(Building& building, const Layer& layer) {
  DryRun dry_run(building);
  auto prepared = prepare(dry_run, layer);
  if (!prepared) {
    return std::nullopt;
  }
  const auto& [whole, variant, descs, weights_type] = *prepared;
  const auto weights = weights_of(building, layer, whole.shaped, weights_type);
  return LayerPrimitives{descs, eltwise_after(building, layer, variant),
                         whole.desc({}, weights).desc};
}

bool add_layer(Building& building, const Layer& layer) {
  const auto prepared = prepare(building, layer);
  if (!prepared) {
    return false;
  }
  const auto& [whole, variant, descs, weights_type] = *prepared;
  const auto weights = descs.front().desc.query_md(dnnl::query::weights_md);
  const auto plain = plain_weights(building, layer, whole.shaped);
  std::vector<Argument> bound;  // memory that the step owns
  std::vector<Argument> more;
  std::vector<Id> ids;
  for (const auto& input : inputs_of(descs.front())) {
    ids.push_back(whole.ids.at(input.argument));
  }
  const bool in_place = layer.kind == Layer::Kind::matmul && weights == plain;
  if (const void* data = building.is_constant(layer.weights) && !in_place
                             ? building.constant(layer.weights)
                             : nullptr) {
    std::vector<std::byte> wide;
    if (const int64_t merged = whole.shaped.merged_groups; merged > 1) {
      const auto groups = merged * whole.shaped.weights.sizes[0];
      wide = merge_groups(data, split_groups(building.desc(layer.weights), groups),
                          building.type(layer.weights), merged);
      data = wide.data();
    }
    bound.push_back(
        {DNNL_ARG_WEIGHTS, weights, building.packed().get(layer.weights, data, plain, weights)});
  } else {
    more.push_back({DNNL_ARG_WEIGHTS, weights});
    ids.push_back(layer.weights);
  }
  if (whole.overwritten) {
    ids.push_back(*whole.overwritten);
  }
  auto step = step_of(descs, more, bound, eltwise_after(building, layer, variant));
  step->inputs = std::move(ids);
  step->outputs = {layer.dst};
  step->output_descs = {whole.shaped.result};
  step->overwritten = whole.overwritten;
  if (multiplies_in_bf16(building, layer)) {
    step->arithmetic = DataType::bf16;
  }
  building.add(std::move(step));
  return true;
}

DeclineReason make_layer(StepRequest& request) {
  if (!request.layer()) {
    return kNotLayer;
  }
  return add_layer(request.building, *request.layer()) ? kAdded : kSlowInOnednn;
}

}  // namespace cpuaccel::plan
