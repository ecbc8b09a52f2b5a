#include "quant/own_kernel.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/scratch.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/qconv/qconv.h"
#include "kernels/quantize/quantize.h"
#include "kernels/table/table.h"
#include "quant/folded.h"

namespace cpuaccel::quant {
namespace {

kernels::DwconvShape dwconv_shape(const LayerShape& s) {
  return {s.OC,         s.kernel[0],  s.kernel[1],   s.stride[0],  s.stride[1],
          s.padding[0], s.padding[1], s.dilation[0], s.dilation[1]};
}

kernels::QconvShape qconv_shape(const LayerShape& s) {
  return {s.IC,        s.OC,         s.groups,     s.kernel[0],   s.kernel[1],  s.stride[0],
          s.stride[1], s.padding[0], s.padding[1], s.dilation[0], s.dilation[1]};
}

// Images of a linear layer are single pixels, which is what LayerShape has in its unused entries.
bool is_dwconv(const LayerShape& shape) {
  return shape.kind == LayerKind::conv && shape.depthwise();
}

// Runs a layer's epilogue on a part of its result.
void run_epilogue(const void* context, uint8_t* dst, int64_t offset, int64_t count) {
  Epilogue epilogue = *static_cast<const Epilogue*>(context);
  if (epilogue.other != nullptr) {
    epilogue.other += offset;
  }
  apply_epilogue(epilogue, dst + offset, count);
}

// Weight zero points, folded into the weights.
at::Tensor without_zero_points(const LayerWeight& layer, const at::Tensor& values, int sign) {
  if (layer.symmetric()) {
    return values.contiguous();
  }
  const at::Tensor result = values.clone(at::MemoryFormat::Contiguous);
  auto* data = result.data_ptr<int8_t>();
  const int64_t count = result.numel() / layer.shape.OC;
  for (int64_t oc = 0; oc < layer.shape.OC; ++oc) {
    const int32_t zero_point = layer.zero_points[static_cast<size_t>(oc)] * sign;
    for (int64_t i = oc * count; i < (oc + 1) * count; ++i) {
      data[i] = static_cast<int8_t>(data[i] - zero_point);
    }
  }
  return result;
}

// From int8 to the uint8 that is 128 more.
constexpr auto kFlip = [] {
  std::array<uint8_t, kernels::kTableEntries> flip{};
  for (size_t i = 0; i < flip.size(); ++i) {
    flip[i] = static_cast<uint8_t>(i ^ 0x80);
  }
  return flip;
}();

// Null where our kernels have none.
std::optional<kernels::ConvFunction> function_of(PostOp post) {
  switch (post) {
    case PostOp::none:
      return kernels::ConvFunction::none;
    case PostOp::relu:
      return kernels::ConvFunction::relu;
    case PostOp::hardswish:
      return kernels::ConvFunction::hardswish;
    case PostOp::silu:
      return kernels::ConvFunction::silu;
    default:
      return std::nullopt;
  }
}

// What dwconv and qconv have in common, in terms of their Weights, Call and functions.
struct Dwconv {
  using Weights = kernels::DwconvWeights;
  using Call = kernels::DwconvCall;
  static Weights pack(const LayerShape& shape, const int8_t* values) {
    return kernels::dwconv_pack(dwconv_shape(shape), values);
  }
  static void unpack(const Weights& packed, int8_t* values) {
    kernels::dwconv_unpack(packed, values);
  }
  static void run(const Call& call) { kernels::dwconv(call); }
  static const char* name() { return kernels::first_usable(kernels::dwconv_kernels()).name; }
  static constexpr const char* kFamily = "dwconv";
};

struct Qconv {
  using Weights = kernels::QconvWeights;
  using Call = kernels::QconvCall;
  static Weights pack(const LayerShape& shape, const int8_t* values) {
    return kernels::qconv_pack(qconv_shape(shape), values);
  }
  static void unpack(const Weights& packed, int8_t* values) {
    kernels::qconv_unpack(packed, values);
  }
  static void run(const Call& call) { kernels::qconv(call); }
  static const char* name() { return kernels::first_usable(kernels::qconv_kernels()).name; }
  static constexpr const char* kFamily = "qconv";
};

template <typename Family>
class OwnKernel final : public Kernel {
 public:
  OwnKernel(const LayerWeight& layer, const at::Tensor& int8_values)
      : layer_(layer),
        packed_(Family::pack(
            layer.shape,
            without_zero_points(layer, int8_values, 1).template const_data_ptr<int8_t>())),
        no_bias_(layer.bias ? 0 : static_cast<size_t>(layer.shape.OC)) {
    packed_weight_bytes() += packed_.bytes;
  }

  ~OwnKernel() override { packed_weight_bytes() -= packed_.bytes; }

  Provider provider() const override { return Provider::own; }

  const char* refuses(const QuantCall& call) override {
    return function_of(call.post) ? nullptr : "our kernels fuse no add, leaky_relu, tanh or gelu";
  }

  bool fuses_epilogue(const QuantCall& /*call*/) override { return true; }

  const char* run(const QuantCall& call) override {
    if (const char* why = refuses(call)) {
      return why;
    }
    const bool relu = call.post == PostOp::relu;
    // ReLU of integers is their least one.
    const auto function =
        relu && !call.f32_dst ? kernels::ConvFunction::none : *function_of(call.post);
    const bool fold_dst = !call.f32_dst && function == kernels::ConvFunction::none;
    const auto folded = folded_.get(layer_, call.src_scale, fold_dst ? call.dst_scale : 1.0f);
    const float* bias = layer_.bias ? folded->dst_bias.data() : no_bias_.data();
    const float inverse_scale = call.f32_dst || fold_dst ? 1.0f : 1.0f / call.dst_scale;
    if (!call.f32_dst &&
        !kernels::conv_dst_in_range(folded->largest_scale * inverse_scale,
                                    folded->largest_bias * inverse_scale, packed_.magnitude)) {
      return "results could leave int32";
    }
    typename Family::Call c;
    c.weights = &packed_;
    c.N = call.N;
    c.IH = call.src_dims[0];
    c.IW = call.src_dims[1];
    c.OH = call.dst_dims[0];
    c.OW = call.dst_dims[1];
    // Families take and give s8 as u8 less 128.
    const int32_t shift = call.s8 ? 128 : 0;
    c.src = call.src_f32 != nullptr ? quantized_src(call) : call.s8 ? flipped_src(call) : call.src;
    c.src_zero_point = call.src_zero_point + shift;
    c.dst.data = call.dst;
    c.dst.type = call.f32_dst ? kernels::DstType::f32
                 : call.s8    ? kernels::DstType::s8
                              : kernels::DstType::u8;
    c.dst.scales = folded->dst_scales.data();
    c.dst.bias = bias;
    c.dst.function = function;
    c.dst.inverse_scale = inverse_scale;
    c.dst.zero_point = call.dst_zero_point + shift;
    c.dst.min = relu ? static_cast<uint8_t>(c.dst.zero_point) : uint8_t{0};
    if (call.epilogue != nullptr) {
      c.epilogue = {run_epilogue, call.epilogue};
    }
    Family::run(c);
    return nullptr;
  }

  at::Tensor unpack() override {
    const auto& s = layer_.shape;
    at::DimVector sizes{s.OC, s.IC / s.groups};
    sizes.append(s.kernel.begin(), s.kernel.begin() + s.spatial);
    const at::Tensor values = at::empty(sizes, at::kChar);
    Family::unpack(packed_, values.data_ptr<int8_t>());
    return without_zero_points(layer_, values, -1);
  }

  int64_t bytes() override { return packed_.bytes; }

  std::string implementation() override {
    return std::string(Family::kFamily) + ":" + Family::name();
  }

 private:
  const uint8_t* quantized_src(const QuantCall& call) const {
    const int64_t count = call.N * layer_.shape.IC;
    auto* src =
        static_cast<uint8_t*>(scratch(ScratchSlot::quantized_src, static_cast<size_t>(count)));
    kernels::quantize_u8(call.src_f32, src, count, call.src_scale, call.src_zero_point);
    return src;
  }

  const uint8_t* flipped_src(const QuantCall& call) const {
    const auto& dims = call.src_dims;
    const int64_t count = call.N * layer_.shape.IC * dims[0] * dims[1] * dims[2];
    auto* src =
        static_cast<uint8_t*>(scratch(ScratchSlot::quantized_src, static_cast<size_t>(count)));
    kernels::table_u8(call.src, src, count, kFlip.data());
    return src;
  }

  const LayerWeight& layer_;
  const typename Family::Weights packed_;
  const std::vector<float> no_bias_;
  FoldedCache folded_;
};

// Weights less their zero points have to be int8 again.
bool fits_int8(const LayerWeight& layer, const at::Tensor& values) {
  const at::Tensor rows = values.reshape({layer.shape.OC, -1});
  const auto* data = rows.const_data_ptr<int8_t>();
  const int64_t count = rows.size(1);
  for (int64_t oc = 0; oc < layer.shape.OC; ++oc) {
    const auto [low, high] = std::minmax_element(data + oc * count, data + (oc + 1) * count);
    const int32_t zero_point = layer.zero_points[static_cast<size_t>(oc)];
    if (*low - zero_point < std::numeric_limits<int8_t>::min() ||
        *high - zero_point > std::numeric_limits<int8_t>::max()) {
      return false;
    }
  }
  return true;
}

}  // namespace

const char* own_refuses(const LayerWeight& layer) {
  const auto& shape = layer.shape;
  if (shape.kind == LayerKind::conv_transpose || shape.spatial > 2) {
    return "our kernels have no transposed and no 3-D convolution";
  }
  return nullptr;
}

const char* own_refuses(const LayerWeight& layer, const at::Tensor& int8_values) {
  if (!layer.symmetric() && !fits_int8(layer, int8_values)) {
    return "our kernels need weights that are int8 less their zero points";
  }
  const at::Tensor values = without_zero_points(layer, int8_values, 1);
  const auto* data = values.const_data_ptr<int8_t>();
  const bool fits = is_dwconv(layer.shape) ? kernels::dwconv_fits(dwconv_shape(layer.shape), data)
                                           : kernels::qconv_fits(qconv_shape(layer.shape), data);
  return fits ? nullptr : "sums of these weights could leave int32";
}

std::unique_ptr<Kernel> make_own_kernel(const LayerWeight& layer, const at::Tensor& int8_values) {
  if (is_dwconv(layer.shape)) {
    return std::make_unique<OwnKernel<Dwconv>>(layer, int8_values);
  }
  return std::make_unique<OwnKernel<Qconv>>(layer, int8_values);
}

}  // namespace cpuaccel::quant
