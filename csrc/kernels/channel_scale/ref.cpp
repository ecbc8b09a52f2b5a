#include "kernels/channel_scale/channel_scale.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {
namespace {

void scale_f32(const float* src, const float* scale, float* dst, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    dst[i] = src[i] * scale[i];
  }
}

void scale_bf16(const uint16_t* src, const uint16_t* scale, uint16_t* dst, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    dst[i] = float_to_bf16(bf16_to_float(src[i]) * bf16_to_float(scale[i]));
  }
}

constexpr ChannelScaleKernels kKernels{scale_f32, scale_bf16};

}  // namespace

const ChannelScaleKernels& channel_scale_ref() { return kKernels; }

}  // namespace cpuaccel::kernels
