#include "kernels/conv_f32/by_gemm.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "base/scratch.h"
#include "kernels/conv_f32/staged.h"

namespace cpuaccel::kernels {
namespace {

// Packing the weights takes as long as multiplying them with 8 to 16 pixels.
constexpr int64_t kFewPixels = 100;
// For this many rows of weights gemm reads the image once, 32 columns at a time. From L2 that is
// faster than copying it; from elsewhere too, if the weights would not fill their panels.
constexpr int64_t kFewChannels = 192;
constexpr int64_t kSmallImage = 192 << 10;  // floats
constexpr int64_t kPanel = 32;

// The im2col matrix as a view of the image, for gemm's packing callbacks.
struct Seen {
  const float* const* pixels;
  const int32_t* offsets;

  static void panels(const void* context, const PanelBlock& block) {
    const auto& seen = *static_cast<const Seen*>(context);
    float* to = block.panels;
    for (int64_t n = 0; n < block.nc; n += block.nr) {
      const int64_t count = std::min(block.nr, block.nc - n);
      for (int64_t k = block.k0; k < block.k0 + block.kc; ++k, to += block.nr) {
        const float* const* pixel = seen.pixels + block.n0 + n;
        for (int64_t j = 0; j < count; ++j) {
          to[j] = pixel[j][seen.offsets[k]];
        }
        std::fill(to + count, to + block.nr, 0.0f);
      }
    }
  }

  static void rows(const void* context, const RowBlock& block) {
    const auto& seen = *static_cast<const Seen*>(context);
    for (int64_t m = 0; m < block.mc; ++m) {
      const float* pixel = seen.pixels[block.m0 + m];
      float* to = block.rows + m * block.stride;
      for (int64_t k = 0; k < block.kc; ++k) {
        to[k] = pixel[seen.offsets[block.k0 + k]];
      }
    }
  }
};

bool image_is_matrix(const Conv2dShape& s) {
  return s.taps() == 1 && s.SH == 1 && s.SW == 1 && s.PH == 0 && s.PW == 0;
}

// Both layouts are the same then, and a batch is one matrix.
bool one_pixel(const Conv2dShape& s) { return image_is_matrix(s) && s.pixels() == 1; }

// The image itself as gemm's operand, or an im2col view of it.
class Image {
 public:
  Image(const Conv2dShape& s, ImageLayout layout) {
    if (image_is_matrix(s)) {
      return;
    }
    staging_.emplace(s, layout, layout, std::numeric_limits<int32_t>::max(), 1);
    memory_ = static_cast<float*>(
        scratch(ScratchSlot::taps, static_cast<size_t>(staging_->floats() + 1) * sizeof(float)));
    pixels_ = static_cast<const float**>(
        scratch(ScratchSlot::runs, static_cast<size_t>(s.pixels()) * sizeof(float*)));
    seen_ = {pixels_, staging_->offsets().data()};
  }

  // The view for a group whose first channel is at `src`. Null: the image is the matrix.
  const Seen* seen(const float* src) const {
    if (!staging_) {
      return nullptr;
    }
    staging_->load(src, 0, memory_, pixels_);
    return &seen_;
  }

 private:
  std::optional<Staging> staging_;
  float* memory_ = nullptr;
  const float** pixels_ = nullptr;
  Seen seen_{};
};

}  // namespace

bool conv_suits_gemm(const Conv2dShape& s, ImageLayout layout) {
  if ((s.N == 1 && s.pixels() <= kFewPixels) || one_pixel(s)) {
    return true;
  }
  if (!image_is_matrix(s) || layout == ImageLayout::channels_last) {
    return image_is_matrix(s);
  }
  const int64_t dst_channels = s.OC / s.groups;
  return dst_channels <= kFewChannels &&
         (s.C * s.pixels() <= kSmallImage || dst_channels % kPanel != 0);
}

void conv_by_gemm(const ConvF32Call& call, GemmFunction* row) {
  const auto& s = call.shape;
  const bool last = call.layout == ImageLayout::channels_last || one_pixel(s);
  const int64_t src_channels = s.C / s.groups, dst_channels = s.OC / s.groups;
  const int64_t K = src_channels * s.taps();
  const Image image(s, call.layout);
  for (int64_t g = 0; g < s.groups; ++g) {
    const float* src = call.src + g * src_channels * (last ? 1 : s.IH * s.IW);
    const float* weights = call.weights + g * dst_channels * K;
    const Seen* seen = image.seen(src);
    GemmCall product;
    product.K = K;
    if (call.bias != nullptr) {
      product.bias = {.data = call.bias + g * dst_channels,
                      .axis = last ? GemmBiasAxis::n : GemmBiasAxis::m};
    }
    if (last) {
      product.M = s.N * s.pixels();
      product.N = dst_channels;
      product.a = {.data = src, .row_stride = s.C};
      product.b = {.data = weights, .row_stride = 1, .column_stride = K};
      product.dst = {.data = call.dst + g * dst_channels, .row_stride = s.OC};
      if (seen != nullptr) {
        product.pack_a = {Seen::rows, seen};
      }
    } else {
      product.M = dst_channels;
      product.N = s.pixels();
      product.batch = s.N;
      product.a = {.data = weights, .row_stride = K};
      product.b = {.data = src, .row_stride = s.IH * s.IW, .batch_stride = s.C * s.IH * s.IW};
      product.dst = {.data = call.dst + g * dst_channels * s.pixels(),
                     .row_stride = s.pixels(),
                     .batch_stride = s.OC * s.pixels()};
      if (seen != nullptr) {
        product.pack_b = {Seen::panels, nullptr, seen};
      }
    }
    gemm(product, row);
  }
}

}  // namespace cpuaccel::kernels
