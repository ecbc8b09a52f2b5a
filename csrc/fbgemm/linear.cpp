#include "fbgemm/kernel_base.h"
#include "fbgemm/provider.h"
#include "quant/pair_sums.h"

namespace cpuaccel::fbgemm_provider {
namespace {

class FbgemmLinear final : public FbgemmKernel<FbgemmLinear, fbgemm::PackBMatrix<int8_t>> {
  friend FbgemmKernel;

 public:
  FbgemmLinear(const LayerWeight& layer, const Int8Weights& values)
      : FbgemmKernel(
            layer,
            std::make_unique<fbgemm::PackBMatrix<int8_t>>(
                fbgemm::matrix_op_t::Transpose, static_cast<int>(layer.shape.IC),
                static_cast<int>(layer.shape.OC), values.data, static_cast<int>(layer.shape.IC)),
            values.data) {
    largest_source_ = has_fbgemm_vnni() ? 255 : quant::largest_exact_source(layer, values);
  }

  Int8Weights unpack() override {
    return quant::new_weights(layer_.int8_bytes(),
                              [this](int8_t* values) { packed_->unpack(values); });
  }

  std::string implementation() override { return "fbgemm:packed_gemm"; }

 private:
  template <bool kRelu, QuantizationGranularity kGranularity>
  void run_as(const QuantCall& call) {
    if (call.f32_dst) {
      run_to_float<kRelu, kGranularity>(call);
    } else {
      run_to_u8<kRelu, kGranularity>(call);
    }
  }

  template <bool kRelu, QuantizationGranularity kGranularity>
  void run_to_u8(const QuantCall& call) {
    const auto params = requantization_.get(layer_, call.src_scale, call.dst_scale);
    const auto M = static_cast<int>(call.N);
    const auto N = static_cast<int>(layer_.shape.OC);
    const auto K = static_cast<int>(layer_.shape.IC);
    const AccumulatorBuffer buffer(call.N * layer_.shape.OC);
    for_each_task([&](int task, int tasks) {
      fbgemm::PackAWithRowOffset<uint8_t> packed_src(fbgemm::matrix_op_t::NoTranspose, M, K,
                                                     call.src, K);
      fbgemm::DoNothing<> last{};
      fbgemm::ReQuantizeOutput<kRelu, kGranularity, float> output(
          last, params->dst_scales.data(), call.dst_zero_point, call.src_zero_point,
          layer_.zero_points.data(), packed_src.getRowOffsetBuffer(), column_offsets_.data(),
          layer_.bias_data(), static_cast<uint32_t>(N), 1, params->acc_scales.data());
      fbgemm::fbgemmPacked(packed_src, *packed_, static_cast<uint8_t*>(call.dst), buffer.data(),
                           static_cast<uint32_t>(N), output, task, tasks);
    });
  }

  template <bool kRelu, QuantizationGranularity kGranularity>
  void run_to_float(const QuantCall& call) {
    const auto M = static_cast<int>(call.N);
    const auto K = static_cast<int>(layer_.shape.IC);
    constexpr auto kPlain = fbgemm::matrix_op_t::NoTranspose;
    const AccumulatorBuffer buffer(call.N * layer_.shape.OC);
    for_each_task([&](int task, int tasks) {
      if (call.src_f32 != nullptr) {
        fbgemm::PackAWithQuantRowOffset<uint8_t> packed_src(kPlain, M, K, call.src_f32, K, nullptr,
                                                            call.src_scale, call.src_zero_point);
        multiply_to_float<kRelu, kGranularity>(call, packed_src, buffer.data(), task, tasks);
      } else {
        fbgemm::PackAWithRowOffset<uint8_t> packed_src(kPlain, M, K, call.src, K);
        multiply_to_float<kRelu, kGranularity>(call, packed_src, buffer.data(), task, tasks);
      }
    });
  }

  template <bool kRelu, QuantizationGranularity kGranularity, typename PackedSrc>
  void multiply_to_float(const QuantCall& call, PackedSrc& packed_src, int32_t* accumulators,
                         int task, int tasks) {
    const auto N = static_cast<uint32_t>(layer_.shape.OC);
    fbgemm::DoNothing<float, float> last{};
    fbgemm::ReQuantizeForFloat<kRelu, kGranularity> output(
        last, call.src_scale, layer_.scales.data(), call.src_zero_point, layer_.zero_points.data(),
        packed_src.getRowOffsetBuffer(), column_offsets_.data(), layer_.bias_data(), N);
    fbgemm::fbgemmPacked(packed_src, *packed_, static_cast<float*>(call.dst), accumulators, N,
                         output, task, tasks);
  }
};

}  // namespace

std::unique_ptr<Kernel> make_linear(const LayerWeight& layer, const Int8Weights& values) {
  return std::make_unique<FbgemmLinear>(layer, values);
}

}  // namespace cpuaccel::fbgemm_provider
