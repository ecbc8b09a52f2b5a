#include "plan/layer_shape.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "dnnl/implementations.h"
#include "plan/engine.h"
#include "plan/merged_groups.h"

namespace cpuaccel::plan {
namespace {

using dnnl::memory;

// Adds dimensions of size 1 in front until there are `dims`.
TensorDesc expanded(TensorDesc desc, size_t dims) {
  while (desc.sizes.size() < dims) {
    desc.sizes.insert(desc.sizes.begin(), 1);
    desc.strides.insert(desc.strides.begin(),
                        desc.sizes.size() > 1 ? desc.sizes[1] * desc.strides[0] : 1);
  }
  return desc;
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
  shaped.src = dense(building.desc(src).sizes, MemoryFormat::channels_last);
  src = with_layout(building, src, shaped.src);
  auto& [strides, begin, end, holes] = shaped.window;
  strides = attribute(op.attributes, "strides", Sizes{});
  begin = attribute(op.attributes, "pads_begin", Sizes{});
  end = attribute(op.attributes, "pads_end", Sizes{});
  holes = attribute(op.attributes, "dilations", Sizes{});
  const auto groups = attribute(op.attributes, "groups", int64_t{1});
  shaped.weights = building.desc(layer.weights);
  Sizes dst{shaped.src.sizes[0], shaped.weights.sizes[0]};
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t extent = (shaped.weights.sizes[2 + i] - 1) * holes[i] + 1;
    dst.push_back((shaped.src.sizes[2 + i] + begin[i] + end[i] - extent) / strides[i] + 1);
    holes[i] -= 1;
  }
  shaped.dst = shaped.result = dense(dst, MemoryFormat::channels_last);
  if (groups > 1) {
    shaped.weights = split_groups(shaped.weights, groups);
  }
  shaped.operand = [dims = dst.size()](const TensorDesc& desc) {
    return Placed{expanded(desc, dims)};
  };
  const auto bias = layer.bias ? memory_desc(building.type(*layer.bias), building.desc(*layer.bias))
                               : memory::desc();
  shaped.remake = [bias, src_type = building.type(src), dst_type = building.type(layer.dst)](
                      const TensorDesc& from, const Window& window, const TensorDesc& to) {
    const int64_t pixels =
        std::accumulate(to.sizes.begin() + 2, to.sizes.end(), int64_t{1}, std::multiplies<>());
    return [=, from = memory_desc(src_type, from), to = memory_desc(dst_type, to)](
               const memory::desc& weights, const dnnl::primitive_attr& attr,
               int implementation) -> dnnl::primitive_desc_base {
      dnnl::convolution_forward::primitive_desc desc(
          engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, from,
          weights, bias, to, window.strides, window.holes, window.begin, window.end, attr);
      dnnl_layer::take_implementation(desc, implementation, pixels);
      return desc;
    };
  };
  shaped.make = shaped.remake(shaped.src, shaped.window, shaped.dst);
  if (groups > 1 && building.type(src) == DataType::bf16) {
    shaped.merged_groups = groups_to_merge(building, layer, shaped);
    shaped.weights = merge_groups(shaped.weights, shaped.merged_groups);
  }
  return shaped;
}

// Whether all dimensions except the last have size 1: one element for each column, or one for all.
bool is_row(const TensorDesc& desc) {
  return std::all_of(desc.sizes.begin(), desc.sizes.end() - (desc.sizes.empty() ? 0 : 1),
                     [](int64_t size) { return size == 1; });
}

// Matrix products. [..., M, K] times [K, N] is one product of [... * M, K] if the layout allows it.
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
  shaped.dst = shaped.result = dense(dst, MemoryFormat::contiguous);
  const auto is_whole_or_row = [&](const TensorDesc& desc) {
    return desc.sizes == dst || is_row(desc);
  };
  const auto each_operand = [&](const auto& holds) {
    return std::all_of(layer.post_ops.begin(), layer.post_ops.end(),
                       [&](const FloatPostOp& post_op) {
                         return !post_op.operand || holds(building.desc(*post_op.operand));
                       });
  };
  const bool shares_matrix = shaped.weights.sizes.size() == 2 && dims > 2;
  if (shares_matrix && !attribute(op.attributes, "transpose_a", false) &&
      !flattened(shaped.src, 1) && each_operand(is_whole_or_row)) {
    shaped.src = dense(shaped.src.sizes, MemoryFormat::contiguous);
    src_id = with_layout(building, src_id, shaped.src);
  }
  const bool one_matrix =
      shares_matrix && flattened(shaped.src, 1).has_value() && each_operand(is_whole_or_row);
  if (shares_matrix && !one_matrix && !each_operand([&](const TensorDesc& desc) {
        return dims == 3 && (desc.sizes == dst || expanded(desc, dims).sizes[0] == 1);
      })) {
    // oneDNN 3.2 reads other operands from wrong places, also in oneDNN Graph.
    throw std::runtime_error(
        "batched product with one matrix: oneDNN misreads a post-op operand with these sizes");
  }
  if (one_matrix) {
    shaped.src = *flattened(shaped.src, 1);
    shaped.dst = *flattened(shaped.dst, 1);
    shaped.operand = [dst](const TensorDesc& desc) -> std::optional<Placed> {
      const auto flat = flattened(desc.sizes == dst ? desc : expanded(desc, dst.size()), 1);
      return flat ? std::optional(Placed{*flat}) : std::nullopt;
    };
  } else {
    shaped.src = src;
    shaped.weights = weights;
    shaped.operand = [dims](const TensorDesc& desc) { return Placed{expanded(desc, dims)}; };
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

}  // namespace

std::optional<Shaped> shape_layer(Building& building, const Layer& layer, Id& src) {
  return layer.kind == Layer::Kind::convolution ? shape_convolution(building, layer, src)
                                                : shape_matmul(building, layer, src);
}

}  // namespace cpuaccel::plan
