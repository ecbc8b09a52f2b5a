#include <algorithm>
#include <array>
#include <vector>

#include "fbgemm/kernel_base.h"
#include "fbgemm/provider.h"
#include "quant/pair_sums.h"

namespace cpuaccel::fbgemm_provider {
namespace {

template <int kSpatial>
std::array<int, kSpatial> narrow(const std::array<int64_t, 3>& values) {
  std::array<int, kSpatial> result{};
  for (size_t i = 0; i < kSpatial; ++i) {
    result[i] = static_cast<int>(values[i]);
  }
  return result;
}

bool transposed(const LayerShape& shape) { return shape.kind == LayerKind::conv_transpose; }

template <int kSpatial>
fbgemm::conv_param_t<kSpatial> parameters_of(const LayerShape& shape, int64_t N,
                                             const std::array<int64_t, 3>& src_dims) {
  const auto padding = narrow<kSpatial>(shape.padding);
  std::array<int, kSpatial * 2> padding_both{};
  std::copy(padding.begin(), padding.end(), padding_both.begin());
  std::copy(padding.begin(), padding.end(), padding_both.begin() + kSpatial);
  return fbgemm::conv_param_t<kSpatial>(
      static_cast<int>(N), static_cast<int>(shape.IC), static_cast<int>(shape.OC),
      narrow<kSpatial>(src_dims), static_cast<int>(shape.groups), narrow<kSpatial>(shape.kernel),
      narrow<kSpatial>(shape.stride), padding_both, narrow<kSpatial>(shape.dilation),
      narrow<kSpatial>(shape.output_padding), transposed(shape));
}

// The weights as FBGEMM packs them: output channel, tap, src channel of its group.
std::vector<int8_t> as_rows(const LayerShape& shape, const Int8Weights& values) {
  std::vector<int8_t> rows(static_cast<size_t>(values.count));
  quant::for_each_weight(shape, [&](int64_t plain, int64_t at, size_t /*oc*/) {
    rows[static_cast<size_t>(at)] = values.data[plain];
  });
  return rows;
}

template <int kSpatial>
class FbgemmConv final
    : public FbgemmKernel<FbgemmConv<kSpatial>, fbgemm::PackWeightsForConv<kSpatial>> {
  using Base = FbgemmKernel<FbgemmConv<kSpatial>, fbgemm::PackWeightsForConv<kSpatial>>;
  friend Base;
  using Base::column_offsets_;
  using Base::largest_source_;
  using Base::layer_;
  using Base::packed_;
  using Base::requantization_;

 public:
  FbgemmConv(const LayerWeight& layer, const Int8Weights& values)
      : FbgemmConv(layer, values, as_rows(layer.shape, values)) {}

  FbgemmConv(const LayerWeight& layer, const Int8Weights& values, const std::vector<int8_t>& rows)
      : Base(layer,
             // The size of the images does not matter here.
             std::make_unique<fbgemm::PackWeightsForConv<kSpatial>>(
                 parameters_of<kSpatial>(layer.shape, 1, {28, 28, 28}), rows.data()),
             rows.data()) {
    const bool vnni = has_fbgemm_vnni() && !packed_->getPackedWForDepthwise();
    largest_source_ = vnni ? 255 : quant::largest_exact_source(layer, values);
  }

  const char* unsupported_reason(const QuantCall& call) override {
    return call.f32_dst ? "FBGEMM's convolutions cannot write a float result"
                        : Base::unsupported_reason(call);
  }

  Int8Weights unpack() override {
    std::vector<int8_t> rows(static_cast<size_t>(layer_.int8_bytes()));
    packed_->unpack(rows.data());
    return quant::new_weights(layer_.int8_bytes(), [&](int8_t* values) {
      quant::for_each_weight(layer_.shape, [&](int64_t plain, int64_t at, size_t /*oc*/) {
        values[plain] = rows[static_cast<size_t>(at)];
      });
    });
  }

  std::string implementation() override {
    if (packed_->getPackedWForDepthwise()) {
      return "fbgemm:depthwise";
    }
    if (packed_->getPackedWForGroupwise()) {
      return "fbgemm:groupwise";
    }
    if (packed_->getPackedWForPointwise()) {
      return "fbgemm:pointwise";
    }
    return "fbgemm:im2col";
  }

 private:
  template <bool kRelu, QuantizationGranularity kGranularity>
  void run_as(const QuantCall& call) {
    const auto conv_param = parameters_of<kSpatial>(layer_.shape, call.N, call.src_dims);
    const auto params = requantization_.get(layer_, call.src_scale, call.dst_scale);
    const auto& dims = call.dst_dims;
    const AccumulatorBuffer buffer(call.N * layer_.shape.OC * dims[0] * dims[1] * dims[2]);
    for_each_task([&](int task, int tasks) {
      fbgemm::DoNothing<> last{};
      fbgemm::ReQuantizeOutput<kRelu, kGranularity, float> output(
          last, params->dst_scales.data(), call.dst_zero_point, call.src_zero_point,
          layer_.zero_points.data(), nullptr, column_offsets_.data(), layer_.bias_data(),
          static_cast<uint32_t>(layer_.shape.OC), static_cast<int>(layer_.shape.groups),
          params->acc_scales.data());
      fbgemm::fbgemmConv<decltype(output), kSpatial, int32_t>(conv_param, call.src, *packed_,
                                                              static_cast<uint8_t*>(call.dst),
                                                              buffer.data(), output, task, tasks);
    });
  }
};

}  // namespace

std::unique_ptr<Kernel> make_convolution(const LayerWeight& layer, const Int8Weights& values) {
  if (layer.shape.spatial == 2) {
    return std::make_unique<FbgemmConv<2>>(layer, values);
  }
  return std::make_unique<FbgemmConv<3>>(layer, values);
}

}  // namespace cpuaccel::fbgemm_provider
