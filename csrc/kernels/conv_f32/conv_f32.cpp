#include "kernels/conv_f32/conv_f32.h"

#include "kernels/conv_f32/unfold.h"

namespace cpuaccel::kernels {
namespace {

// The image is the matrix: one tap, on every pixel.
bool pointwise(const Conv2dShape& s) {
  return s.taps() == 1 && s.SH == 1 && s.SW == 1 && s.PH == 0 && s.PW == 0;
}

// What the groups of a call have in common.
struct Group {
  int64_t src_channels, dst_channels, k;
};

GemmCall channels_first(const ConvF32Call& call, const Group& group, const UnfoldedImages& images,
                        const float* weights, const float* bias, float* dst) {
  const auto& s = call.shape;
  GemmCall gemm;
  gemm.M = group.dst_channels;
  gemm.N = s.pixels();
  gemm.K = group.k;
  gemm.batch = s.N;
  gemm.a = {.data = weights, .row_stride = group.k};
  if (pointwise(s)) {
    gemm.b = {.data = images.src, .row_stride = s.pixels(), .batch_stride = images.image_floats()};
  } else {
    gemm.pack_b = {unfold_panels, &images};
  }
  gemm.dst = {.data = dst, .row_stride = s.pixels(), .batch_stride = s.OC * s.pixels()};
  gemm.bias = {.data = bias, .axis = GemmBiasAxis::m};
  return gemm;
}

GemmCall channels_last(const ConvF32Call& call, const Group& group, const UnfoldedImages& images,
                       const float* weights, const float* bias, float* dst) {
  const auto& s = call.shape;
  GemmCall gemm;
  gemm.M = s.pixels();
  gemm.N = group.dst_channels;
  gemm.K = group.k;
  gemm.batch = s.N;
  if (pointwise(s)) {  // all images are one
    gemm.M *= s.N;
    gemm.batch = 1;
    gemm.a = {.data = images.src, .row_stride = s.C};
  } else {
    gemm.pack_a = {unfold_rows, &images};
  }
  gemm.b = {.data = weights, .row_stride = 1, .column_stride = group.k};
  gemm.dst = {.data = dst, .row_stride = s.OC, .batch_stride = s.OC * s.pixels()};
  gemm.bias = {.data = bias, .axis = GemmBiasAxis::n};
  return gemm;
}

}  // namespace

void conv_f32(const ConvF32Call& call, GemmFunction* row) {
  const auto& s = call.shape;
  const Group group{s.C / s.groups, s.OC / s.groups, s.C / s.groups * s.taps()};
  const bool first = call.layout == ImageLayout::channels_first;
  for (int64_t g = 0; g < s.groups; ++g) {
    const int64_t oc = g * group.dst_channels;
    const UnfoldedImages images{&s, call.src + g * group.src_channels * (first ? s.IH * s.IW : 1)};
    const float* bias = call.bias != nullptr ? call.bias + oc : nullptr;
    GemmCall gemm_call =
        (first ? channels_first : channels_last)(call, group, images, call.weights + oc * group.k,
                                                 bias, call.dst + oc * (first ? s.pixels() : 1));
    if (bias == nullptr) {
      gemm_call.bias = {};
    }
    row != nullptr ? gemm(gemm_call, row) : gemm(gemm_call);
  }
}

void conv_f32(const ConvF32Call& call) { conv_f32(call, nullptr); }

}  // namespace cpuaccel::kernels
