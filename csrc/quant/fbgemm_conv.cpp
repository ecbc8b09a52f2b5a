#include "quant/fbgemm_kernel_base.h"
#include "quant/pair_sums.h"

namespace cpuaccel::quant {
namespace {

template <int kSpatial>
std::array<int, kSpatial> narrow(const std::array<int64_t, 3>& values) {
  std::array<int, kSpatial> result{};
  for (size_t i = 0; i < kSpatial; ++i) {
    result[i] = static_cast<int>(values[i]);
  }
  return result;
}

c10::List<int64_t> list_of(const std::array<int64_t, 3>& values, int count) {
  c10::List<int64_t> list;
  for (int i = 0; i < count; ++i) {
    list.push_back(values[static_cast<size_t>(i)]);
  }
  return list;
}

bool transposed(const LayerShape& shape) { return shape.kind == LayerKind::conv_transpose; }

template <int kSpatial>
c10::intrusive_ptr<PackedConvWeight<kSpatial>> pack(const LayerWeight& layer,
                                                    const at::Tensor& int8_values) {
  const auto& shape = layer.shape;
  return c10::dynamic_intrusive_pointer_cast<PackedConvWeight<kSpatial>>(
      PackedConvWeight<kSpatial>::prepack(
          layer.requantized(int8_values), std::nullopt, list_of(shape.stride, kSpatial),
          list_of(shape.padding, kSpatial), list_of(shape.output_padding, kSpatial),
          list_of(shape.dilation, kSpatial), shape.groups, transposed(shape)));
}

template <int kSpatial>
class FbgemmConv final : public FbgemmKernel<FbgemmConv<kSpatial>, PackedConvWeight<kSpatial>> {
  using Base = FbgemmKernel<FbgemmConv<kSpatial>, PackedConvWeight<kSpatial>>;
  friend Base;
  using Base::largest_source_;
  using Base::layer_;
  using Base::packed_;
  using Base::requantization_;

 public:
  FbgemmConv(const LayerWeight& layer, const at::Tensor& int8_values)
      : Base(layer, pack<kSpatial>(layer, int8_values)) {
    const bool vnni = fbgemm_has_vnni() && !packed_->w->getPackedWForDepthwise();
    largest_source_ = vnni ? 255 : largest_exact_source(layer, int8_values);
  }

  const char* unsupported_reason(const QuantCall& call) override {
    return call.f32_dst ? "FBGEMM's convolutions cannot write a float result"
                        : Base::unsupported_reason(call);
  }

  std::string implementation() override {
    if (packed_->w->getPackedWForDepthwise()) {
      return "fbgemm:depthwise";
    }
    if (packed_->w->getPackedWForGroupwise()) {
      return "fbgemm:groupwise";
    }
    if (packed_->w->getPackedWForPointwise()) {
      return "fbgemm:pointwise";
    }
    return "fbgemm:im2col";
  }

 private:
  fbgemm::conv_param_t<kSpatial> parameters(const QuantCall& call) const {
    const auto& shape = layer_.shape;
    const auto padding = narrow<kSpatial>(shape.padding);
    std::array<int, kSpatial * 2> padding_both{};
    std::copy(padding.begin(), padding.end(), padding_both.begin());
    std::copy(padding.begin(), padding.end(), padding_both.begin() + kSpatial);
    return fbgemm::conv_param_t<kSpatial>(
        static_cast<int>(call.N), static_cast<int>(shape.IC), static_cast<int>(shape.OC),
        narrow<kSpatial>(call.src_dims), static_cast<int>(shape.groups),
        narrow<kSpatial>(shape.kernel), narrow<kSpatial>(shape.stride), padding_both,
        narrow<kSpatial>(shape.dilation), narrow<kSpatial>(shape.output_padding),
        transposed(shape));
  }

  template <bool kRelu, QuantizationGranularity kGranularity>
  void run_as(const QuantCall& call) {
    const auto conv_param = parameters(call);
    const auto params = requantization_.get(layer_, call.src_scale, call.dst_scale);
    const auto& dims = call.dst_dims;
    const AccumulatorBuffer buffer(call.N * layer_.shape.OC * dims[0] * dims[1] * dims[2]);
    for_each_task([&](int task, int tasks) {
      fbgemm::DoNothing<> last{};
      fbgemm::ReQuantizeOutput<kRelu, kGranularity, float> output(
          last, params->dst_scales.data(), call.dst_zero_point, call.src_zero_point,
          packed_->w_zp.data(), nullptr, packed_->col_offsets.data(), layer_.bias_data(),
          static_cast<uint32_t>(layer_.shape.OC), static_cast<int>(layer_.shape.groups),
          params->acc_scales.data());
      fbgemm::fbgemmConv<decltype(output), kSpatial, int32_t>(conv_param, call.src, *packed_->w,
                                                              static_cast<uint8_t*>(call.dst),
                                                              buffer.data(), output, task, tasks);
    });
  }
};

}  // namespace

std::unique_ptr<Kernel> make_fbgemm_conv(const LayerWeight& layer, const at::Tensor& int8_values) {
  if (layer.shape.spatial == 2) {
    return std::make_unique<FbgemmConv<2>>(layer, int8_values);
  }
  return std::make_unique<FbgemmConv<3>>(layer, int8_values);
}

}  // namespace cpuaccel::quant
