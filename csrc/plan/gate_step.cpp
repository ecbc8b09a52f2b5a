#include "plan/gate_step.h"

#include <memory>
#include <utility>

#include "kernels/channel_scale/channel_scale.h"
#include "plan/kernel_step.h"
#include "plan/layer_step.h"
#include "plan/pixel_stride.h"

namespace cpuaccel::plan {
namespace {

// The image that is multiplied; nullopt unless `layer` is such a convolution with such a post-op.
std::optional<Id> image_of(const Building& building, const Layer& layer) {
  if (layer.kind != Layer::Kind::convolution || layer.post_ops.empty() ||
      layer.post_ops.back().algorithm != dnnl::algorithm::binary_mul) {
    return std::nullopt;
  }
  const Id image = *layer.post_ops.back().operand;
  const auto& sizes = building.desc(image).sizes;
  const auto &src = building.desc(layer.src).sizes, &weights = building.desc(layer.weights).sizes;
  const bool fits = sizes.size() > 2 && !is_pixel(sizes) && src.size() == sizes.size() &&
                    is_pixel(src) && is_pixelwise(layer, weights) && src[0] == sizes[0] &&
                    weights[0] == sizes[1] && building.type(image) == building.type(layer.dst) &&
                    is_f32_or_bf16(building.type(image));
  return fits ? std::optional(image) : std::nullopt;
}

template <typename T>
KernelStep::Function scaled(const Sizes& sizes) {
  const int64_t N = sizes[0], C = sizes[1], pixels = count_of(sizes) / (N * C);
  return [=](std::span<void* const> in, std::span<void* const> out) {
    for (int64_t n = 0; n < N; ++n) {
      kernels::channel_scale(static_cast<const T*>(in[0]) + n * pixels * C,
                             static_cast<const T*>(in[1]) + n * C,
                             static_cast<T*>(out[0]) + n * pixels * C, pixels, C);
    }
  };
}

}  // namespace

DeclineReason make_gate(StepRequest& request) {
  if (!request.layer()) {
    return kNotLayer;
  }
  auto& building = request.building;
  const auto& layer = *request.layer();
  const auto& operations = request.partition().operations;
  const auto found = operations.size() > 1 ? image_of(building, layer) : std::nullopt;
  if (!found) {
    return "not a 1x1 convolution of one pixel that scales the channels of an image";
  }
  // The result of the layer without that post-op.
  const Id gates = operations[operations.size() - 2].outputs[0];
  Layer gate = layer;
  gate.post_ops.pop_back();
  gate.dst = gates;
  if (!add_layer(building, gate)) {
    return kSlowInOnednn;
  }
  const auto desc = dense(building.desc(*found).sizes, MemoryFormat::channels_last);
  const Id image = with_layout(building, *found, desc);
  std::optional<Id> overwritten;
  if (image == *found && building.may_overwrite(layer.dst, image)) {
    overwritten = image;
  }
  const bool bf16 = building.type(image) == DataType::bf16;
  auto step =
      std::make_unique<KernelStep>(std::vector<Id>{image, gates}, layer.dst, desc,
                                   bf16 ? scaled<uint16_t>(desc.sizes) : scaled<float>(desc.sizes));
  step->overwritten = overwritten;
  building.add(std::move(step));
  return kAdded;
}

}  // namespace cpuaccel::plan
