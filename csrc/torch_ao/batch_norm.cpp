// quantized::batch_norm2d and batch_norm2d_relu, as one factor and one offset for each channel.
#include <cmath>
#include <cstdint>

#include "base/scratch.h"
#include "kernels/channel_affine/channel_affine.h"
#include "torch_ao/names.h"
#include "torch_ao/quint8.h"

namespace cpuaccel::torch_ao {
namespace {

struct Norm {
  at::Tensor weight, bias, mean, var;
  double eps;
};

bool dense_floats(const at::Tensor& x, int64_t count) {
  return x.defined() && x.scalar_type() == at::kFloat && x.device().is_cpu() &&
         x.numel() == count && x.is_contiguous();
}

const char* fallback_reason(const at::Tensor& x, const Norm& norm, PerTensor dst) {
  if (const char* reason = quint8_fallback_reason(x)) {
    return reason;
  }
  if (x.dim() != 4 || x.numel() == 0) {
    return "input is empty or not a batch of images";
  }
  for (const at::Tensor* values : {&norm.weight, &norm.bias, &norm.mean, &norm.var}) {
    if (!dense_floats(*values, x.size(1))) {
      return "weight, bias, mean or var is not a dense float32 value for each channel";
    }
  }
  return valid_quint8(dst) ? nullptr : reasons::kInvalidArguments;
}

// torch's operations in torch's order, in float and double, so the factors equal torch's. Returns
// false if the kernel can't hold a channel's values.
bool fold(const Norm& norm, int64_t channels, double src_scale, double dst_scale,
          float* __restrict factor, float* __restrict offset) {
  const auto* weight = norm.weight.const_data_ptr<float>();
  const auto* bias = norm.bias.const_data_ptr<float>();
  const auto* mean = norm.mean.const_data_ptr<float>();
  const auto* var = norm.var.const_data_ptr<float>();
  const auto eps = static_cast<float>(norm.eps);
  const double scale = src_scale / dst_scale;
  int unfit = 0;
  for (int64_t c = 0; c < channels; ++c) {
    const float inverse_deviation = 1.0f / std::sqrt(var[c] + eps);
    factor[c] = static_cast<float>(inverse_deviation * weight[c] * scale);
    offset[c] = static_cast<float>((bias[c] - mean[c] * inverse_deviation * weight[c]) / dst_scale);
    unfit |= static_cast<int>(!kernels::channel_affine_fits(factor[c], offset[c]));
  }
  return unfit == 0;
}

struct Factors {
  float* factor;
  float* offset;
};

// The calling thread's scratch memory, valid until it uses this slot again.
Factors factors_of(int64_t channels) {
  auto* factor = static_cast<float*>(
      scratch(ScratchSlot::accumulator, static_cast<size_t>(2 * channels) * sizeof(float)));
  return {factor, factor + channels};
}

at::Tensor run(const at::Tensor& x, const Factors& factors, PerTensor dst, bool relu) {
  CPUACCEL_KERNEL_CALL(batch_norm2d);
  auto result = empty_quint8(x.sizes(), dst, at::MemoryFormat::ChannelsLast);
  const auto zero_point = static_cast<int32_t>(dst.zero_point);
  const kernels::ChannelAffine affine{
      .C = x.size(1),
      .factor = factors.factor,
      .offset = factors.offset,
      .src_zero_point = static_cast<int32_t>(per_tensor(x).zero_point),
      .dst_zero_point = zero_point,
      .lowest = relu ? zero_point : 0};
  kernels::channel_affine_u8(affine, bytes(x), mutable_bytes(result), x.numel() / x.size(1));
  return result;
}

template <OpName kName, bool kRelu>
at::Tensor batch_norm2d(at::Tensor qx, std::optional<at::Tensor> weight,
                        std::optional<at::Tensor> bias, at::Tensor mean, at::Tensor var, double eps,
                        double output_scale, int64_t output_zero_point) {
  if (engine_is_replaced()) {
    const Norm norm{weight ? *weight : at::Tensor(), bias ? *bias : at::Tensor(), mean, var, eps};
    const PerTensor dst{output_scale, output_zero_point};
    const char* reason = fallback_reason(qx, norm, dst);
    if (reason == nullptr) {
      const at::Tensor x = qx.contiguous(at::MemoryFormat::ChannelsLast);
      const Factors factors = factors_of(x.size(1));
      if (fold(norm, x.size(1), per_tensor(x).scale, output_scale, factors.factor,
               factors.offset)) {
        return run(x, factors, dst, kRelu);
      }
      reason = "a channel's factor or offset is too large";
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, qx, weight, bias, mean, var, eps, output_scale, output_zero_point)
      .toTensor();
}

#define ROW(name, relu) CPUACCEL_OVERRIDE(name, c10::DispatchKey::QuantizedCPU, batch_norm2d, relu)
CPUACCEL_OVERRIDES{
    ROW("quantized::batch_norm2d", false),
    ROW("quantized::batch_norm2d_relu", true),
};
#undef ROW

}  // namespace

}  // namespace cpuaccel::torch_ao
