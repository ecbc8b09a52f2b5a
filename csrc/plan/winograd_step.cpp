#include "plan/winograd_step.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/amx.h"
#include "base/parallel.h"
#include "dnnl/tuning_cache.h"
#include "kernels/gemm/half.h"
#include "kernels/winograd/winograd.h"
#include "plan/elementwise_step.h"
#include "plan/eltwise.h"
#include "plan/pixel_stride.h"
#include "plan/widened.h"

namespace cpuaccel::plan {
namespace {

using kernels::WinogradWeights;

// With fewer multiply-adds or channels, transforms and narrow products cost what the method gains.
constexpr int64_t kFewestProducts = int64_t{1} << 26, kFewestChannels = 32;
// Transformed weights are read in each call, and stay in memory. Tiles of 4 x 4 pixels have 4 times
// the weights of the layer.
constexpr size_t kMostWinogradBytes[] = {size_t{128} << 20, size_t{40} << 20};
constexpr int64_t kWinogradTiles[] = {2, 4};

// A convolution that the kernel computes.
struct Winograd {
  kernels::WinogradCall call = {};  // without pointers
  int64_t in, out;
  WinogradWeights::Strides strides;
  Id src, weights, dst;
  std::optional<Id> bias, addend = {};
  DataType type;  // of all of them
  Activation eltwise = Activation::none;
  // What the kernel reads and writes, in f32.
  TensorDesc src_layout = {}, addend_layout = {}, result = {};
};

kernels::WinogradImage image_of(const Sizes& sizes, int64_t pixel) {
  return {sizes[2], sizes[3], pixel, sizes[2] * sizes[3] * pixel};
}

// Reads the addition as an addend of pixels, or of channels. Returns false for other operands.
bool takes_addend(Winograd& found, const Building& building, const FloatPostOp& addition) {
  const Id id = *addition.operand;
  if (addition.algorithm != dnnl::algorithm::binary_add || building.type(id) != found.type) {
    return false;
  }
  auto& layout = found.addend_layout;
  layout = found.type == DataType::f32
               ? building.desc(id)
               : dense(building.desc(id).sizes, MemoryFormat::channels_last);
  const auto& [sizes, strides] = layout;
  auto& call = found.call;
  if (sizes == found.result.sizes) {
    const auto pixel = pixel_stride(layout);
    if (!pixel) {
      return false;
    }
    const auto image = image_of(sizes, *pixel);
    call.addend_pixel = image.pixel;
    call.addend_row = image.width * image.pixel;
    call.addend_image = image.image;
  } else {
    const bool of_channels = sizes.size() == 4 && sizes[1] == found.out && strides[1] == 1 &&
                             sizes[2] == 1 && sizes[3] == 1;
    if (!of_channels || (sizes[0] != 1 && sizes[0] != call.images)) {
      return false;
    }
    call.addend_image = sizes[0] == 1 ? 0 : strides[0];
  }
  found.addend = id;
  return true;
}

bool takes_post_ops(Winograd& found, const Building& building, const Layer& layer) {
  auto next = layer.post_ops.begin();
  if (next != layer.post_ops.end() && next->operand && !takes_addend(found, building, *next++)) {
    return false;
  }
  if (next != layer.post_ops.end() && !next->operand) {
    found.eltwise = eltwise_of(*next++);
    if (found.eltwise == Activation::none) {
      return false;
    }
  }
  return next == layer.post_ops.end();
}

// Whether f32 arithmetic is no loss for layers of the type.
bool is_taken(DataType type) {
  return type == DataType::f32 || (is_f32_or_half(type) && !amx_tiles_usable());
}

// A 3x3 convolution of floats with one group, stride 1 and padding of at most 2.
std::optional<Winograd> as_winograd(const Building& building, const Layer& layer) {
  const auto& attributes = layer.operation->attributes;
  const auto numbers = [&](std::string_view name) { return attribute(attributes, name, Sizes{}); };
  const auto& [weights, taps] = building.desc(layer.weights);
  const auto& src = building.desc(layer.src);
  const Sizes ones{1, 1}, begin = numbers("pads_begin"), end = numbers("pads_end");
  const auto type = building.type(layer.src);
  const auto has_type = [&](Id id) { return building.type(id) == type; };
  if (layer.kind != Layer::Kind::convolution || weights.size() != 4 || weights[2] != 3 ||
      weights[3] != 3 || src.sizes.size() != 4 || src.sizes[1] != weights[1] ||
      attribute(attributes, "groups", int64_t{1}) != 1 || numbers("strides") != ones ||
      numbers("dilations") != ones || begin.size() != 2 || end.size() != 2 ||
      attribute(attributes, "auto_pad", std::string("None")) != "None" || !is_taken(type) ||
      !memory_format_of(building.desc(layer.weights)) || !has_type(layer.weights) ||
      !has_type(layer.dst) ||
      (layer.bias && (!has_type(*layer.bias) || !building.is_constant(*layer.bias))) ||
      building.fast_math()) {
    return std::nullopt;
  }
  Winograd found{{},        weights[1],    weights[0], {taps[0], taps[1], taps[2], taps[3]},
                 layer.src, layer.weights, layer.dst,  layer.bias,
                 {},        type};
  const Sizes sizes{src.sizes[0], weights[0], src.sizes[2] + begin[0] + end[0] - 2,
                    src.sizes[3] + begin[1] + end[1] - 2};
  found.result = dense(sizes, MemoryFormat::channels_last);
  found.src_layout = src;
  auto pixel = pixel_stride(src);
  if (!pixel || type != DataType::f32) {
    found.src_layout = dense(src.sizes, MemoryFormat::channels_last);
    pixel = src.sizes[1];
  }
  auto& call = found.call;
  call.images = src.sizes[0];
  call.from = image_of(src.sizes, *pixel);
  call.to = image_of(sizes, weights[0]);
  call.top = begin[0];
  call.left = begin[1];
  call.lowest = -std::numeric_limits<float>::infinity();
  if (count_of(sizes) * weights[1] * 9 < kFewestProducts ||
      std::min(found.in, found.out) < kFewestChannels || !takes_post_ops(found, building, layer)) {
    return std::nullopt;
  }
  if (found.eltwise == Activation::relu) {
    found.eltwise = Activation::none;
    call.lowest = 0;
  }
  return found;
}

// `count` numbers of the layer's type.
std::vector<float> as_floats(const Winograd& layer, const void* data, int64_t count) {
  std::vector<float> floats(static_cast<size_t>(count));
  const float* const found = kernels::elements_as_floats(data, layer.type, count, floats.data());
  std::copy_n(found, found == floats.data() ? 0 : floats.size(), floats.begin());
  return floats;
}

class WinogradStep : public Step {
 public:
  // `bias` has the layer's type; null: none.
  WinogradStep(const Winograd& layer, std::shared_ptr<const WinogradWeights> weights,
               const void* bias)
      : call_(layer.call),
        bias_(bias != nullptr ? as_floats(layer, bias, layer.out) : std::vector<float>{}),
        has_addend_(layer.addend),
        eltwise_(layer.eltwise),
        count_(count_of(layer.result.sizes)),
        weights_(std::move(weights)) {}

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    auto call = call_;
    call.src = static_cast<const float*>(in[0]);
    call.bias = bias_.empty() ? nullptr : bias_.data();
    call.addend = has_addend_ ? static_cast<const float*>(in[1]) : nullptr;
    call.dst = static_cast<float*>(out[0]);
    kernels::winograd(call, *weights_);
    if (eltwise_ != Activation::none) {
      apply_eltwise(eltwise_, DataType::f32, out[0], count_);
    }
  }
  std::string kernel() const override {
    const std::string tile = std::to_string(weights_->tile());
    return std::string("cpuaccel winograd:") +
           kernels::first_usable(kernels::winograd_kernels()).name + ":" + tile + "x" + tile;
  }
  bool fits_team() const override { return true; }

 private:
  kernels::WinogradCall call_;
  std::vector<float> bias_;
  bool has_addend_;
  Activation eltwise_;
  int64_t count_;
  std::shared_ptr<const WinogradWeights> weights_;
};

std::string tuning_key(const Winograd& layer) {
  const auto& call = layer.call;
  std::string text = "winograd";
  for (const int64_t number :
       {call.images, layer.in, call.from.height, call.from.width, call.from.pixel, layer.out,
        call.to.height, call.to.width, call.top, call.left}) {
    text += " " + std::to_string(number);
  }
  return text +
         (layer.type == DataType::f32    ? ""
          : layer.type == DataType::bf16 ? " bf16"
                                         : " f16") +
         (layer.bias ? " bias" : "") +
         (layer.addend ? call.addend_pixel != 0 ? " sum" : " row" : "") + " " +
         dnnl_layer::tuning_conditions();
}

std::shared_ptr<WinogradWeights> transformed(const Winograd& layer, const void* data,
                                             int64_t tile) {
  if (layer.type == DataType::f32) {
    return std::make_shared<WinogradWeights>(static_cast<const float*>(data), layer.strides,
                                             layer.out, layer.in, tile);
  }
  const auto floats = as_floats(layer, data, layer.out * layer.in * 9);
  return std::make_shared<WinogradWeights>(floats.data(), layer.strides, layer.out, layer.in, tile);
}

bool fits(const Building& building, const Winograd& layer, size_t number) {
  const auto bytes = WinogradWeights::bytes(layer.out, layer.in, kWinogradTiles[number]);
  return bytes <= kMostWinogradBytes[number] &&
         const_cast<Building&>(building).packed().has_room(layer.dst, DataType::f32, bytes);
}

// The size of tiles that gains the most; 0 for oneDNN. It follows from the sizes alone: tiles of 2
// x 2 took 0.35 to 0.61 of oneDNN's time in 13 layers of a diffusion UNet and in VAEs, and those of
// 4 x 4 less than that if the products have at least 64 rows. Timing these layers and making random
// weights for it would take longer than all other tuning.
//
// More threads than a few wait for each other in each of the 16 or 36 products, unless each has
// blocks of tiles of its own (kernels/winograd). Then oneDNN's convolution, which they divide once,
// is faster.
int tile_of(const Building& building, const Winograd& layer) {
  constexpr int64_t kFewestTiles[] = {16, 64};
  const auto tiles = [&](int64_t tile) {
    const auto& to = layer.call.to;
    return layer.call.images * ((to.height + tile - 1) / tile) * ((to.width + tile - 1) / tile);
  };
  constexpr int kFewThreads = 4;
  for (const size_t number : {1, 0}) {
    const int64_t tile = kWinogradTiles[number];
    const bool divides = parallel_threads() <= kFewThreads ||
                         kernels::winograd_threads_take_blocks(
                             tiles(tile), WinogradWeights::bytes(layer.out, layer.in, tile));
    if (divides && fits(building, layer, number) && tiles(tile) >= kFewestTiles[number]) {
      return static_cast<int>(tile);
    }
  }
  return 0;
}

}  // namespace

DeclineReason make_winograd(StepRequest& request) {
  if (!request.layer()) {
    return kNotLayer;
  }
  auto& building = request.building;
  const auto& of = *request.layer();
  auto layer = as_winograd(building, of);
  if (!layer) {
    return "not a large 3x3 convolution with stride 1, with an addition and an activation at most";
  }
  if (!dnnl_layer::tuning_enabled()) {
    return "tuning is off";
  }
  const void* const data =
      building.is_constant(layer->weights) ? building.constant(layer->weights) : nullptr;
  if (data == nullptr) {
    return "the weights have no data";
  }
  if (!fits(building, *layer, 0)) {
    return "no room for transformed weights";
  }
  const auto key = tuning_key(*layer);
  const int tile = dnnl_layer::tuning_result(key, [&] { return tile_of(building, *layer); });
  if (tile != 2 && tile != 4) {
    return "too few tiles";
  }
  auto weights = building.packed().cached<WinogradWeights>(
      layer->dst, DataType::f32, [&] { return transformed(*layer, data, tile); });
  const auto as_f32 = [&](Id id, const TensorDesc& layout) {
    if (layer->type == DataType::f32) {
      return with_layout(building, id, layout);
    }
    const Id wide = building.new_value(DataType::f32);
    add_cast(building, id, wide, layout);
    return wide;
  };
  auto step = std::make_unique<WinogradStep>(
      *layer, std::move(weights), layer->bias ? building.constant(*layer->bias) : nullptr);
  step->inputs = {as_f32(layer->src, layer->src_layout)};
  if (layer->addend) {
    const Id addend = as_f32(*layer->addend, layer->addend_layout);
    step->inputs.push_back(addend);
    if (addend == *layer->addend && addend != layer->src &&
        same_layout(layer->addend_layout, layer->result) &&
        building.may_overwrite(layer->dst, addend)) {
      step->overwritten = addend;
    }
  }
  const Id dst = layer->type == DataType::f32 ? layer->dst : building.new_value(DataType::f32);
  step->outputs = {dst};
  step->output_descs = {layer->result};
  building.add(std::move(step));
  if (dst != layer->dst) {
    add_cast(building, dst, layer->dst, layer->result);
  }
  return kAdded;
}

}  // namespace cpuaccel::plan
