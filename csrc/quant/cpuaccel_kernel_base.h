// CpuaccelKernel and PackedCpuaccelKernel: base classes of quantized layers that run on cpuaccel's
// kernels, whichever family it is.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/conv_dst.h"
#include "quant/kernel.h"
#include "quant/requantization.h"

namespace cpuaccel::quant {

// Subtracts the weights' zero points (sign 1) or adds them back (sign -1).
Int8Weights without_zero_points(const LayerWeight& layer, const Int8Weights& values, int sign);

class CpuaccelKernel : public Kernel {
 public:
  explicit CpuaccelKernel(const LayerWeight& layer)
      : layer_(layer), no_bias_(layer.bias.defined() ? 0 : static_cast<size_t>(layer.shape.OC)) {}

  Provider provider() const override { return Provider::cpuaccel; }
  const char* unsupported_reason(const QuantCall& call) override;
  bool fuses_byte_post_ops(const QuantCall& /*call*/) override { return true; }

 protected:
  // The fields that ConvDst and QgemmDst have in common.
  struct Result {
    std::shared_ptr<const RequantizationParams> params;
    const float* bias = nullptr;
    Activation activation = Activation::none;
    float inverse_scale = 1.0f;
    int32_t zero_point = 0;
    uint8_t min = 0;

    template <typename Dst>
    void fill(const QuantCall& call, Dst& dst) const {
      dst.data = call.dst;
      dst.type = call.f32_dst ? DataType::f32 : call.s8 ? DataType::s8 : DataType::u8;
      dst.scales = params->dst_scales.data();
      dst.bias = bias;
      dst.activation = activation;
      dst.inverse_scale = inverse_scale;
      dst.zero_point = zero_point;
      dst.min = min;
    }
  };
  // Returns nullopt if results of accumulators up to `magnitude` could overflow int32.
  std::optional<Result> result_of(const QuantCall& call, int64_t magnitude);
  // Added to zero points of s8 values, which kernel families treat as u8 minus 128.
  static int32_t shift(const QuantCall& call) { return call.s8 ? 128 : 0; }
  // A callback that applies a call's byte post-ops to a part of its dst.
  static kernels::ConvEpilogue kernel_epilogue(const QuantCall& call);

  const LayerWeight& layer_;

 private:
  const std::vector<float> no_bias_;
  RequantizationCache requantization_;
};

// Owns the weights that one family has packed.
template <typename Weights>
class PackedCpuaccelKernel : public CpuaccelKernel {
 public:
  PackedCpuaccelKernel(const LayerWeight& layer, Weights packed)
      : CpuaccelKernel(layer), packed_(std::move(packed)) {
    packed_weight_bytes() += packed_.bytes;
  }
  ~PackedCpuaccelKernel() override { packed_weight_bytes() -= packed_.bytes; }

  const char* run(const QuantCall& call) final {
    if (const char* why = unsupported_reason(call)) {
      return why;
    }
    const auto result = result_of(call, packed_.magnitude);
    return result ? run_family(call, *result) : "results could overflow int32";
  }

  int64_t bytes() final { return packed_.bytes; }

 protected:
  // Runs the family's kernel. Returns null, or does nothing and returns the reason.
  virtual const char* run_family(const QuantCall& call, const Result& result) = 0;

  const Weights packed_;
};

}  // namespace cpuaccel::quant
