#include "quant/cpuaccel_kernel_base.h"

namespace cpuaccel::quant {
namespace {

void run_byte_post_ops(const void* context, uint8_t* dst, int64_t offset, int64_t count) {
  BytePostOps byte_post_ops = *static_cast<const BytePostOps*>(context);
  if (byte_post_ops.other != nullptr) {
    byte_post_ops.other += offset;
  }
  apply_byte_post_ops(byte_post_ops, dst + offset, count);
}

}  // namespace

Int8Weights without_zero_points(const LayerWeight& layer, const Int8Weights& values, int sign) {
  if (layer.symmetric()) {
    return values;
  }
  const int64_t count = values.count / layer.shape.OC;
  return new_weights(values.count, [&](int8_t* data) {
    for (int64_t oc = 0; oc < layer.shape.OC; ++oc) {
      const int32_t zero_point = layer.zero_points[static_cast<size_t>(oc)] * sign;
      for (int64_t i = oc * count; i < (oc + 1) * count; ++i) {
        data[i] = static_cast<int8_t>(values.data[i] - zero_point);
      }
    }
  });
}

const char* CpuaccelKernel::unsupported_reason(const QuantCall& call) {
  return dnnl_layer::activation_of(call.post)
             ? nullptr
             : "cpuaccel's kernels do not fuse add, leaky_relu or tanh";
}

std::optional<CpuaccelKernel::Result> CpuaccelKernel::result_of(const QuantCall& call,
                                                                int64_t magnitude) {
  const bool relu = call.post == PostOp::relu;
  // For integers, ReLU is a lower bound of the result.
  const auto activation =
      relu && !call.f32_dst ? Activation::none : *dnnl_layer::activation_of(call.post);
  const bool fold_dst = !call.f32_dst && activation == Activation::none;
  Result result;
  result.params = requantization_.get(layer_, call.src_scale, fold_dst ? call.dst_scale : 1.0f);
  result.bias = layer_.bias.defined() ? result.params->dst_bias.data() : no_bias_.data();
  result.activation = activation;
  result.inverse_scale = call.f32_dst || fold_dst ? 1.0f : 1.0f / call.dst_scale;
  result.zero_point = call.dst_zero_point + shift(call);
  result.min = relu ? static_cast<uint8_t>(result.zero_point) : uint8_t{0};
  if (!call.f32_dst &&
      !kernels::conv_dst_in_range(result.params->largest_scale * result.inverse_scale,
                                  result.params->largest_bias * result.inverse_scale, magnitude)) {
    return std::nullopt;
  }
  return result;
}

kernels::ConvEpilogue CpuaccelKernel::kernel_epilogue(const QuantCall& call) {
  if (call.byte_post_ops == nullptr) {
    return {};
  }
  return {run_byte_post_ops, call.byte_post_ops};
}

}  // namespace cpuaccel::quant
