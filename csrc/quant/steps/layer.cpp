// The plan steps q_conv, q_linear and q_linear_dynamic: quantized layers, run by quant/layer.h.
//
//   op q_conv in SRC WEIGHTS [SCALES ZERO_POINTS] [BIAS] [OTHER] out DST
//     src_*, dst_* quantizers; weights_* if there are no SCALES and ZERO_POINTS (f32, s32)
//     per_channel=b: bias=b: function=s: a name of base/activations.inc, in f32
//     strides=is: padding=is: dilations=is: groups=i: transposed=b: output_padding=is:
//     sum=b:        OTHER, with other_*, is added before rounding
//     table=is:     256 entries that the result goes through
//     binary=s:     add or mul of the result, with mid_*, and OTHER, with other_*; gives result_*;
//                   binary_relu=b:
//   op q_linear     the same, without the parameters of convolutions
//   op q_linear_dynamic   SRC is f32 and is quantized by its own range; reduce_range=b:
//
// DST is u8 or f32. An f32 DST allows no post-op except `function`.

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "quant/byte_post_ops.h"
#include "quant/layer.h"
#include "quant/onednn_kernel.h"
#include "quant/source.h"
#include "quant/steps/constants.h"
#include "quant/steps/float_sum.h"
#include "quant/steps/step.h"

namespace cpuaccel::quant {
namespace {

// The inputs of an op by name.
struct Operands {
  Id src, weights;
  std::optional<Id> scales, zero_points, bias, other;
};

Operands operands_of(const Operation& operation) {
  const auto& attributes = operation.attributes;
  const auto& in = operation.inputs;
  Operands result{in.at(0), in.at(1), {}, {}, {}, {}};
  size_t next = 2;
  if (attribute(attributes, "per_channel", false)) {
    result.scales = in.at(next++);
    result.zero_points = in.at(next++);
  }
  if (attribute(attributes, "bias", false)) {
    result.bias = in.at(next++);
  }
  if (next < in.size()) {
    result.other = in[next];
  }
  return result;
}

// The weights, bias and quantizers of the layer with this shape.
LayerWeight layer_weight(const Building& building, const Operands& operands,
                         const Operation& operation, LayerShape shape) {
  LayerWeight layer;
  layer.shape = std::move(shape);
  layer.values = new_weights(count_of(building.desc(operands.weights).sizes), [&](int8_t* values) {
    copy_constant(building, operands.weights, values);
  });
  const auto channels = static_cast<size_t>(layer.shape.OC);
  if (operands.scales) {
    layer.per_channel = true;
    layer.scales = constant<float>(building, *operands.scales);
    layer.zero_points = constant<int32_t>(building, *operands.zero_points);
    if (layer.scales.size() != channels || layer.zero_points.size() != channels) {
      throw std::runtime_error(operation.name + ": expected " + std::to_string(channels) +
                               " scales and zero points, one for each output channel");
    }
  } else {
    layer.scales.assign(channels, attribute(operation.attributes, "weights_scale", 1.0f));
    layer.zero_points.assign(
        channels,
        static_cast<int32_t>(attribute(operation.attributes, "weights_zero_point", int64_t{0})));
  }
  if (operands.bias) {
    auto bias = constant<float>(building, *operands.bias);
    if (bias.size() != channels) {
      throw std::runtime_error(operation.name + ": expected a bias of " + std::to_string(channels) +
                               " elements, got " + std::to_string(bias.size()));
    }
    layer.bias = new_bias(std::move(bias));
  }
  return layer;
}

// A 1-D convolution is a 2-D one whose images have one row.
List of_dimensions(const Operation& operation, const char* name, size_t dims, int64_t otherwise) {
  auto list = attribute(operation.attributes, name, List(dims, otherwise));
  if (dims == 1) {
    list.insert(list.begin(), otherwise);
  }
  return list;
}

LayerShape shape_of(const Operation& operation, Sizes weight_sizes) {
  if (operation.name != "q_conv") {
    if (weight_sizes.size() != 2) {
      throw std::runtime_error(operation.name + ": the weight does not have 2 dimensions");
    }
    return linear_shape(weight_sizes);
  }
  if (weight_sizes.size() < 3) {
    throw std::runtime_error("q_conv: the weight has fewer than 3 dimensions");
  }
  const size_t dims = weight_sizes.size() - 2;
  if (dims == 1) {
    weight_sizes.insert(weight_sizes.begin() + 2, 1);
  }
  const ConvParameters parameters{of_dimensions(operation, "strides", dims, 1),
                                  of_dimensions(operation, "padding", dims, 0),
                                  of_dimensions(operation, "output_padding", dims, 0),
                                  of_dimensions(operation, "dilations", dims, 1),
                                  attribute(operation.attributes, "groups", int64_t{1}),
                                  attribute(operation.attributes, "transposed", false)};
  return conv_shape(weight_sizes, parameters, static_cast<int>(std::max<size_t>(dims, 2)));
}

std::shared_ptr<Layer> make_layer(const Building& building, const Operation& operation) {
  const auto operands = operands_of(operation);
  const auto shape = shape_of(operation, building.desc(operands.weights).sizes);
  std::string reason;
  const std::shared_ptr<Layer> layer =
      Layer::create(layer_weight(building, operands, operation, shape), reason,
                    {.without_vnni = WithoutVnni::cpuaccel_kernel});
  if (!layer) {
    throw std::runtime_error(reason);
  }
  if (const char* why = layer->needs_float()) {
    throw std::runtime_error(why);
  }
  return layer;
}

class LayerStep : public plan::Step {
 public:
  std::shared_ptr<Layer> layer;
  QuantCall call;  // of one image or row, without data
  int64_t N = 0;
  std::vector<uint8_t> table;
  std::optional<BytePostOps> byte_post_ops;  // without data
  bool dynamic = false, reduce_range = false;
  bool sum = false;  // the layer's kernel adds the second input
  // If the kernel does not fuse the addition: it writes f32 results to the second output, to which
  // the second input is then added.
  std::optional<FloatSum> float_sum;

  void run(Pointers in, Pointers out) const override {
    QuantCall now = call;
    now.dst = float_sum ? out[1] : out[0];
    if (dynamic) {
      auto* src = static_cast<float*>(in[0]);
      const auto q = dynamic_quantizer(src, N * layer->shape().IC, reduce_range);
      now.src_f32 = src;
      now.src_scale = static_cast<float>(q.scale);
      now.src_zero_point = q.zero_point;
    } else {
      now.src = u8(in[0]);
    }
    BytePostOps after;
    if (byte_post_ops) {
      after = *byte_post_ops;
      after.other = after.binary ? u8(in[1]) : nullptr;
      now.byte_post_ops = float_sum ? nullptr : &after;
    }
    if (sum && !overwritten) {
      std::memcpy(now.dst, in[1], static_cast<size_t>(count_of(output_descs[0].sizes)));
    }
    if (!layer->run_slices("graph_region", op(), now, N)) {
      throw std::runtime_error("no provider runs this quantized layer");
    }
    if (float_sum) {
      const int64_t count = count_of(output_descs[0].sizes);
      add_in_floats(*float_sum, static_cast<const float*>(out[1]), u8(in[1]), u8(out[0]), count);
      apply_byte_post_ops(after, u8(out[0]), count);
    }
  }
  std::string kernel() const override { return layer->kernel_name(); }
  bool fits_team() const override { return layer->fits_team(); }

 private:
  Op op() const { return dynamic ? Op::linear_dynamic : sum ? Op::conv2d_add : layer->op(); }
};

// Sets the sizes of src and dst, and returns the descriptor of dst.
TensorDesc set_sizes(LayerStep& step, const Sizes& src, bool is_conv) {
  const auto& shape = step.layer->shape();
  if (!is_conv) {
    if (src.empty() || src.back() != shape.IC) {
      throw std::runtime_error("quantized layer: the source has other channels than the weights");
    }
    Sizes dst = src;
    dst.back() = shape.OC;
    step.N = count_of(src) / shape.IC;
    return plan::dense(dst, MemoryFormat::contiguous);
  }
  const size_t dims = src.size() - 2;
  if (src[1] != shape.IC) {
    throw std::runtime_error("quantized layer: the source has other channels than the weights");
  }
  const size_t first = dims == 1 ? 1 : 0;
  std::copy(src.begin() + 2, src.end(), step.call.src_dims.begin() + first);
  step.call.dst_dims = shape.dst_dims(step.call.src_dims);
  step.N = src[0];
  Sizes dst{src[0], shape.OC};
  dst.insert(dst.end(), step.call.dst_dims.begin() + first,
             step.call.dst_dims.begin() + first + static_cast<ptrdiff_t>(dims));
  if (std::any_of(dst.begin(), dst.end(), [](int64_t size) { return size <= 0; })) {
    throw std::runtime_error("q_conv: the result would be empty");
  }
  return plan::dense(dst, MemoryFormat::channels_last);
}

void set_byte_post_ops(LayerStep& step, const Operation& operation) {
  const auto entries = attribute(operation.attributes, "table", List{});
  const auto binary = attribute(operation.attributes, "binary", std::string());
  if (entries.empty() && binary.empty()) {
    return;
  }
  step.byte_post_ops.emplace();
  if (!entries.empty()) {
    step.table.assign(entries.begin(), entries.end());
    step.table.resize(256);
    step.byte_post_ops->set_table(step.table.data());
  }
  if (binary.empty()) {
    return;
  }
  const auto a = value_quantizer(operation, "mid"), b = value_quantizer(operation, "other"),
             result = value_quantizer(operation, "result");
  const auto op = binary == "add" ? kernels::BinaryOp::add : kernels::BinaryOp::mul;
  step.byte_post_ops->binary = op;
  step.byte_post_ops->quantizers = {.scale_a = a.scale,
                                    .scale_b = b.scale,
                                    .scale = result.scale,
                                    .zero_point_a = a.zero_point,
                                    .zero_point_b = b.zero_point,
                                    .zero_point = result.zero_point,
                                    .relu = attribute(operation.attributes, "binary_relu", false)};
  if (!kernels::in_range(op, step.byte_post_ops->quantizers)) {
    throw std::runtime_error(operation.name + ": results could overflow int32");
  }
}

PostOp eltwise_of(const Operation& operation) {
  return dnnl_layer::post_op_of(function_of(operation));
}

// cpuaccel's kernels and FBGEMM do not fuse an addition before rounding. oneDNN does, but is exact
// with VNNI only and needs weight zero points of 0.
bool sums_in_onednn(const Layer& layer) { return onednn_has_vnni() && layer.symmetric(); }

void set_quantizers(LayerStep& step, const Operation& operation) {
  auto& call = step.call;
  call.post = eltwise_of(operation);
  step.sum = attribute(operation.attributes, "sum", false);
  if (step.sum) {
    call.post = call.post == PostOp::relu ? PostOp::sum_relu : PostOp::sum;
  }
  if (!step.dynamic) {
    const auto src = value_quantizer(operation, "src");
    call.src_scale = src.scale;
    call.src_zero_point = src.zero_point;
  }
  if (!call.f32_dst) {
    const auto dst = value_quantizer(operation, "dst");
    call.dst_scale = dst.scale;
    call.dst_zero_point = dst.zero_point;
  }
  if (step.sum) {
    const auto other = value_quantizer(operation, "other");
    call.sum_scale = other.scale;
    call.sum_zero_point = other.zero_point;
  }
}

void add_layer(Building& building, const Region&, const Operation& operation) {
  const auto operands = operands_of(operation);
  const bool is_conv = operation.name == "q_conv";
  const Id dst = operation.outputs[0];
  const auto format = is_conv ? MemoryFormat::channels_last : MemoryFormat::contiguous;
  const Id src = in_format(building, operands.src, format);
  auto step = std::make_unique<LayerStep>();
  const auto make = [&] { return make_layer(building, operation); };
  // A dry run has no weights and caches nothing.
  step->layer = building.constant(operands.weights) == nullptr
                    ? make()
                    : building.packed().cached<Layer>(dst, DataType::s8, make);
  step->call.may_tune = true;
  step->dynamic = operation.name == "q_linear_dynamic";
  if (step->dynamic) {
    step->arithmetic = DataType::u8;  // src is f32, but the step quantizes it
  }
  step->reduce_range = attribute(operation.attributes, "reduce_range", false);
  step->call.f32_dst = building.type(dst) == DataType::f32;
  const auto desc = set_sizes(*step, building.desc(src).sizes, is_conv);
  set_quantizers(*step, operation);
  set_byte_post_ops(*step, operation);
  step->inputs = {src};
  if (operands.other) {
    if (building.desc(*operands.other).sizes != desc.sizes) {
      throw std::runtime_error(operation.name +
                               ": the second operand has other sizes than the result");
    }
    const Id other = in_format(building, *operands.other, format);
    step->inputs.push_back(other);
    if (step->sum &&
        !(sums_in_onednn(*step->layer) && step->layer->results_fit_int32(step->call))) {
      step->float_sum = float_sum_of(step->call);
      step->sum = false;
      step->call.post = PostOp::none;
      step->call.f32_dst = true;
    } else if (step->sum && other != src && building.may_overwrite(dst, other)) {
      step->overwritten = other;
    }
  }
  step->outputs = {dst};
  step->output_descs = {desc};
  if (step->float_sum) {
    step->outputs.push_back(building.new_value(DataType::f32));
    step->output_descs.push_back(desc);
  }
  building.add(std::move(step));
}

const RegisterStep kConv("q_conv", add_layer);
const RegisterStep kLinear("q_linear", add_layer);
const RegisterStep kLinearDynamic("q_linear_dynamic", add_layer);

}  // namespace
}  // namespace cpuaccel::quant
