#include "graph/layer_step.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "dnnl/implementations.h"
#include "dnnl/ranks.h"
#include "graph/engine.h"
#include "graph/gemm_type.h"
#include "graph/layer_trial.h"
#include "graph/primitive_step.h"

namespace cpuaccel::graph {
namespace {

using dnnl::memory;
using Argument = PrimitiveStep::Argument;
using Dims = std::vector<int64_t>;
// The implementation of that number (dnnl/implementations.h). Throws dnnl::error.
using MakeDesc = std::function<dnnl::primitive_desc_base(
    const memory::desc& weights, const dnnl::primitive_attr& attr, int implementation)>;

// A layer as oneDNN's primitives take it.
struct Shaped {
  TensorDesc src, weights, dst;
  // The place of an operand of a post-op, as a tensor of as many dimensions as dst.
  std::function<std::optional<TensorDesc>(const TensorDesc&)> operand;
  MakeDesc make;
  TensorDesc result;  // dst as the program has it
};

// Sizes and strides of more dimensions: 1 in front.
TensorDesc expanded(TensorDesc desc, size_t dims) {
  while (desc.sizes.size() < dims) {
    desc.sizes.insert(desc.sizes.begin(), 1);
    desc.strides.insert(desc.strides.begin(),
                        desc.sizes.size() > 1 ? desc.sizes[1] * desc.strides[0] : 1);
  }
  return desc;
}

// The dimensions before `from_end` as one; nothing where they are not one run of numbers.
std::optional<TensorDesc> flattened(const TensorDesc& desc, size_t from_end) {
  const size_t keep = desc.sizes.size() - from_end;
  int64_t size = desc.sizes[keep - 1], stride = desc.strides[keep - 1];
  for (size_t dim = keep - 1; dim-- > 0;) {
    if (desc.sizes[dim] == 1) {
      continue;
    }
    if (size != 1 && desc.strides[dim] != size * stride) {
      return std::nullopt;
    }
    stride = size == 1 ? desc.strides[dim] : stride;
    size *= desc.sizes[dim];
  }
  TensorDesc result{{size}, {stride}};
  result.sizes.insert(result.sizes.end(), desc.sizes.end() - static_cast<ptrdiff_t>(from_end),
                      desc.sizes.end());
  result.strides.insert(result.strides.end(), desc.strides.end() - static_cast<ptrdiff_t>(from_end),
                        desc.strides.end());
  return result;
}

void swap_last_two(TensorDesc& desc) {
  const size_t dims = desc.sizes.size();
  std::swap(desc.sizes[dims - 1], desc.sizes[dims - 2]);
  std::swap(desc.strides[dims - 1], desc.strides[dims - 2]);
}

// Convolutions read and write channels_last.
std::optional<Shaped> shape_convolution(Building& building, const Layer& layer, Id& src) {
  const auto& op = *layer.operation;
  Shaped shaped;
  shaped.src = dense(building.desc(src).sizes, Order::channels_last);
  if (!same_places(shaped.src, building.desc(src))) {
    const Id copy = building.new_value(building.type(src));
    add_copy(building, src, copy, shaped.src);
    src = copy;
  }
  const auto strides = attribute(op.attributes, "strides", Dims{});
  const auto begin = attribute(op.attributes, "pads_begin", Dims{});
  const auto end = attribute(op.attributes, "pads_end", Dims{});
  auto dilations = attribute(op.attributes, "dilations", Dims{});
  const auto groups = attribute(op.attributes, "groups", int64_t{1});
  shaped.weights = building.desc(layer.weights);
  Sizes dst{shaped.src.sizes[0], shaped.weights.sizes[0]};
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t extent = (shaped.weights.sizes[2 + i] - 1) * dilations[i] + 1;
    dst.push_back((shaped.src.sizes[2 + i] + begin[i] + end[i] - extent) / strides[i] + 1);
    dilations[i] -= 1;  // oneDNN counts the holes between taps
  }
  shaped.dst = shaped.result = dense(dst, Order::channels_last);
  if (groups > 1) {
    auto& [sizes, places] = shaped.weights;
    sizes[0] /= groups;
    sizes.insert(sizes.begin(), groups);
    places.insert(places.begin(), sizes[1] * places[0]);
  }
  shaped.operand = [dims = dst.size()](const TensorDesc& desc) { return expanded(desc, dims); };
  const auto src_desc = memory_desc(building.type(src), shaped.src);
  const auto dst_desc = memory_desc(building.type(layer.dst), shaped.dst);
  const auto bias = layer.bias ? memory_desc(building.type(*layer.bias), building.desc(*layer.bias))
                               : memory::desc();
  const int64_t pixels =
      std::accumulate(dst.begin() + 2, dst.end(), int64_t{1}, std::multiplies<>());
  shaped.make = [=](const memory::desc& weights, const dnnl::primitive_attr& attr,
                    int implementation) -> dnnl::primitive_desc_base {
    dnnl::convolution_forward::primitive_desc desc(
        engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, src_desc,
        weights, bias, dst_desc, strides, dilations, begin, end, attr);
    dnnl_layer::take_implementation(desc, implementation, pixels);
    return desc;
  };
  return shaped;
}

// Whether it has one number for each column, or one for all.
bool is_row(const TensorDesc& desc) {
  return std::all_of(desc.sizes.begin(), desc.sizes.end() - (desc.sizes.empty() ? 0 : 1),
                     [](int64_t size) { return size == 1; });
}

// Products: [..., M, K] times [K, N] are one of [... * M, K] wherever numbers lie so.
std::optional<Shaped> shape_matmul(Building& building, const Layer& layer, Id& src_id) {
  const auto& op = *layer.operation;
  Shaped shaped;
  shaped.src = building.desc(layer.src);
  shaped.weights = building.desc(layer.weights);
  if (shaped.src.sizes.size() < 2 || shaped.weights.sizes.size() < 2) {
    return std::nullopt;
  }
  if (attribute(op.attributes, "transpose_a", false)) {
    swap_last_two(shaped.src);
  }
  if (attribute(op.attributes, "transpose_b", false)) {
    swap_last_two(shaped.weights);
  }
  const size_t dims = std::max(shaped.src.sizes.size(), shaped.weights.sizes.size());
  Sizes dst(dims);
  const auto src = expanded(shaped.src, dims), weights = expanded(shaped.weights, dims);
  for (size_t dim = 0; dim + 2 < dims; ++dim) {
    dst[dim] = std::max(src.sizes[dim], weights.sizes[dim]);
  }
  dst[dims - 2] = src.sizes[dims - 2];
  dst[dims - 1] = weights.sizes[dims - 1];
  shaped.dst = shaped.result = dense(dst, Order::contiguous);
  const auto is_whole_or_row = [&](const TensorDesc& desc) {
    return desc.sizes == dst || is_row(desc);
  };
  const auto each_operand = [&](const auto& holds) {
    return std::all_of(layer.post_ops.begin(), layer.post_ops.end(), [&](const PostOp& post_op) {
      return !post_op.operand || holds(building.desc(*post_op.operand));
    });
  };
  const bool shares_matrix = shaped.weights.sizes.size() == 2 && dims > 2;
  if (shares_matrix && !attribute(op.attributes, "transpose_a", false) &&
      !flattened(shaped.src, 1) && each_operand(is_whole_or_row)) {
    shaped.src = dense(shaped.src.sizes, Order::contiguous);
    const Id copy = building.new_value(building.type(src_id));
    add_copy(building, src_id, copy, shaped.src);
    src_id = copy;
  }
  const bool one_matrix =
      shares_matrix && flattened(shaped.src, 1).has_value() && each_operand(is_whole_or_row);
  if (shares_matrix && !one_matrix && !each_operand([&](const TensorDesc& desc) {
        return dims == 3 && (desc.sizes == dst || expanded(desc, dims).sizes[0] == 1);
      })) {
    // oneDNN 3.2 reads others from wrong places, in its Graph too.
    throw std::runtime_error("a product of a batch with one matrix, and an operand for a part");
  }
  if (one_matrix) {
    shaped.src = *flattened(shaped.src, 1);
    shaped.dst = *flattened(shaped.dst, 1);
    shaped.operand = [dst](const TensorDesc& desc) -> std::optional<TensorDesc> {
      if (desc.sizes == dst) {
        return flattened(desc, 1);
      }
      auto row = expanded(desc, dst.size());
      return flattened(row, 1);
    };
  } else {
    shaped.src = src;
    shaped.weights = weights;
    shaped.operand = [dims](const TensorDesc& desc) { return expanded(desc, dims); };
  }
  const auto src_desc = memory_desc(building.type(src_id), shaped.src);
  const auto dst_desc = memory_desc(building.type(layer.dst), shaped.dst);
  memory::desc bias;
  if (layer.bias) {
    bias = memory_desc(building.type(*layer.bias),
                       expanded(building.desc(*layer.bias), shaped.dst.sizes.size()));
  }
  shaped.make = [=](const memory::desc& packed, const dnnl::primitive_attr& attr,
                    int implementation) {
    dnnl::matmul::primitive_desc desc(engine(), src_desc, packed, bias, dst_desc, attr);
    dnnl_layer::take_implementation(desc, implementation);
    return desc;
  };
  return shaped;
}

// Layers of floats whose source and weights are rounded to bfloat16, the weights once.
bool multiplies_in_bf16(const Building& building, const Layer& layer) {
  return building.fast_math() && building.is_constant(layer.weights) &&
         building.type(layer.src) == DataType::f32 && building.type(layer.dst) == DataType::f32 &&
         building.type(layer.weights) == DataType::f32;
}

// Throws dnnl::error where oneDNN has nothing.
dnnl::primitive_desc_base choose_weights(Building& building, const Layer& layer,
                                         const Shaped& shaped, const dnnl::primitive_attr& attr,
                                         DataType weights_type, int implementation) {
  const auto plain = memory_desc(weights_type, shaped.weights);
  if (!building.is_constant(layer.weights)) {
    return shaped.make(plain, attr, implementation);
  }
  const auto type = plain.get_data_type();
  const auto best =
      shaped.make({shaped.weights.sizes, type, memory::format_tag::any}, attr, implementation);
  // Weights that are packed for other sizes already serve, if the same code runs on them.
  for (const auto& layout : building.packed().layouts(layer.weights)) {
    if (layout.get_data_type() != type) {
      continue;
    }
    if (layout == best.query_md(dnnl::query::weights_md)) {
      return best;
    }
    try {
      const auto other = shaped.make(layout, attr, 0);
      if (std::string_view(other.impl_info_str()) == best.impl_info_str()) {
        return other;
      }
    } catch (const dnnl::error&) {
      continue;
    }
  }
  return best;
}

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

// The last post-op, if our kernel may compute it behind the layer.
std::optional<kernels::FloatFunction> function_at_end(const Building& building,
                                                      const Layer& layer) {
  if (layer.post_ops.empty() || !gemm_type(building.type(layer.dst))) {
    return std::nullopt;
  }
  const auto found = function_of(layer.post_ops.back());
  return found && is_slow_in_layers(*found) ? found : std::nullopt;
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

// All that decides how fast ways are.
std::string problem_of(const Building& building, const Layer& layer, const Shaped& shaped, Id src,
                       DataType weights_type, const PostOps& post_ops) {
  std::string text = "float " + layer.operation->name;
  for (const std::string_view name : {"strides", "pads_begin", "pads_end", "dilations"}) {
    for (const int64_t number : attribute(layer.operation->attributes, name, Dims{})) {
      text += " " + std::to_string(number);
    }
    text += ";";
  }
  text += text_of(memory_desc(building.type(src), shaped.src)) + ";";
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
  return text + dnnl_layer::conditions();
}

// Of more weights than these a trial would take long, and win little: they are read from memory.
constexpr int64_t kMostTriedWeights = int64_t{1} << 24;

// oneDNN's choice where nothing can be won: other implementations of products are not faster.
LayerWay way_of(const Building& building, const Layer& layer, const Shaped& shaped, Id src,
                DataType weights_type, const PostOps& post_ops) {
  const auto function = function_at_end(building, layer);
  if ((layer.kind == Layer::Kind::matmul && !function) || !building.is_constant(layer.weights) ||
      building.constant(layer.weights) == nullptr ||
      count_of(shaped.weights.sizes) > kMostTriedWeights) {
    return {};
  }
  const memory::desc weights{shaped.weights.sizes,
                             memory_desc(weights_type, shaped.weights).get_data_type(),
                             memory::format_tag::any};
  return fastest_way(
      problem_of(building, layer, shaped, src, weights_type, post_ops), function,
      [&](LayerWay way) { return shaped.make(weights, post_ops.attr(way), way.implementation); });
}

}  // namespace

bool add_layer(Building& building, const Layer& layer) {
  Id src = layer.src;
  const bool fast = multiplies_in_bf16(building, layer);
  if (fast) {
    const TensorDesc lies = building.desc(src);
    src = building.new_value(DataType::bf16);
    add_copy(building, layer.src, src, lies);
  }
  const auto shaped = layer.kind == Layer::Kind::convolution
                          ? shape_convolution(building, layer, src)
                          : shape_matmul(building, layer, src);
  if (!shaped) {
    return false;
  }
  std::vector<Argument> arguments{{DNNL_ARG_SRC, memory_desc(building.type(src), shaped->src)}};
  std::vector<Id> ids{src};
  std::optional<Id> over;
  PostOps post_ops;
  // A handle is no copy: each gets its own.
  const auto append = [&](const PostOp& post_op, const auto& to) {
    to(post_ops.all);
    if (&post_op != &layer.post_ops.back()) {
      to(post_ops.but_last);
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
    const auto& lies = building.desc(id);
    const bool once = std::count(ids.begin(), ids.end(), id) == 0;
    if (post_op.algorithm == dnnl::algorithm::binary_add && !over && once && id != layer.weights &&
        lies == shaped->result && building.type(id) == building.type(layer.dst) &&
        building.may_be_over(layer.dst, id)) {
      over = id;
      append(post_op, [](dnnl::post_ops& to) { to.append_sum(1.0f); });
      continue;
    }
    const auto operand = shaped->operand(lies);
    if (!operand) {
      return false;
    }
    const auto desc = memory_desc(building.type(id), *operand);
    arguments.push_back(
        {DNNL_ARG_ATTR_MULTIPLE_POST_OP(post_ops.all.len()) | DNNL_ARG_SRC_1, desc});
    ids.push_back(id);
    append(post_op, [&](dnnl::post_ops& to) { to.append_binary(post_op.algorithm, desc); });
  }
  if (over && std::count(ids.begin(), ids.end(), *over) > 0) {
    return false;  // read by another post-op after it is written over
  }
  const auto weights_type = fast ? DataType::bf16 : building.type(layer.weights);
  auto way = way_of(building, layer, *shaped, src, weights_type, post_ops);
  const auto described = [&] {
    return choose_weights(building, layer, *shaped, post_ops.attr(way), weights_type,
                          way.implementation);
  };
  dnnl::primitive_desc_base desc;
  try {
    desc = described();
  } catch (const dnnl::error&) {
    if (way.implementation == 0) {
      throw;
    }
    way.implementation = 0;  // a file names one that is not there
    desc = described();
  }
  if (is_slow(desc)) {
    return false;
  }
  const auto weights = desc.query_md(dnnl::query::weights_md);
  const auto plain = memory_desc(building.type(layer.weights), shaped->weights);
  std::vector<Argument> held;  // by the step
  if (const void* data =
          building.is_constant(layer.weights) ? building.constant(layer.weights) : nullptr) {
    held.push_back(
        {DNNL_ARG_WEIGHTS, weights, building.packed().get(layer.weights, data, plain, weights)});
  } else {
    arguments.push_back({DNNL_ARG_WEIGHTS, weights});
    ids.push_back(layer.weights);
  }
  if (layer.bias) {
    arguments.push_back({DNNL_ARG_BIAS, desc.query_md(dnnl::query::weights_md, 1)});
    ids.push_back(*layer.bias);
  }
  if (over) {
    ids.push_back(*over);
  }
  const Argument dst{DNNL_ARG_DST, memory_desc(building.type(layer.dst), shaped->dst)};
  auto step = std::make_unique<PrimitiveStep>(desc, std::move(arguments),
                                              std::vector<Argument>{dst}, std::move(held));
  step->inputs = std::move(ids);
  step->outputs = {layer.dst};
  step->output_descs = {shaped->result};
  step->over = over;
  if (way.function_behind) {
    step->behind = function_at_end(building, layer);
  }
  if (fast) {
    step->arithmetic = DataType::bf16;
  }
  building.add(std::move(step));
  return true;
}

}  // namespace cpuaccel::graph
