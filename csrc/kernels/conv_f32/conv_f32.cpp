#include "kernels/conv_f32/conv_f32.h"

#include "kernels/conv_f32/channels_first.h"
#include "kernels/conv_f32/unfold.h"

namespace cpuaccel::kernels {
namespace {

// Rows of the unfolded image times columns of the weights, group by group.
void channels_last(const ConvF32Call& call, GemmFunction* row) {
  const auto& s = call.shape;
  const int64_t src_channels = s.C / s.groups, dst_channels = s.OC / s.groups;
  const int64_t k = src_channels * s.taps();
  for (int64_t g = 0; g < s.groups; ++g) {
    const UnfoldedImages images{&s, call.src + g * src_channels, nullptr};
    GemmCall product;
    product.M = s.pixels();
    product.N = dst_channels;
    product.K = k;
    product.batch = s.N;
    if (conv_is_pointwise(s)) {  // all images are one
      product.M *= s.N;
      product.batch = 1;
      product.a = {.data = images.src, .row_stride = s.C};
    } else {
      product.pack_a = {unfold_rows, &images};
    }
    product.b = {.data = call.weights + g * dst_channels * k, .row_stride = 1, .column_stride = k};
    product.dst = {
        .data = call.dst + g * dst_channels, .row_stride = s.OC, .batch_stride = s.OC * s.pixels()};
    if (call.bias != nullptr) {
      product.bias = {.data = call.bias + g * dst_channels, .axis = GemmBiasAxis::n};
    }
    gemm(product, row);
  }
}

}  // namespace

void conv_f32(const ConvF32Call& call, GemmFunction* row) {
  // Of one pixel, both layouts are the same, and few images times weights is what gemm is good at.
  const bool one_pixel = call.shape.pixels() == 1 && conv_is_pointwise(call.shape);
  if (call.layout == ImageLayout::channels_last || one_pixel) {
    channels_last(call, row);
  } else {
    conv_channels_first(call, row());
  }
}

void conv_f32(const ConvF32Call& call) { conv_f32(call, first_usable(gemm_kernels()).function); }

}  // namespace cpuaccel::kernels
