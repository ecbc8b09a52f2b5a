// Family winograd: f32 convolutions of 3x3 taps by Winograd's method (Lavin and Gray, 2015).
//
//   dst[n,y,x,o] = max(bias[o] + addend[n,y,x,o] + sum over i, a, b of
//                      weights[o,i,a,b] * src[n,y+a-top,x+b-left,i], lowest)
//
//   stride 1, dilation 1, one group; src is 0 outside of the image
//   The channels of a pixel are contiguous. addend may be null; dst may be addend with its strides.
//
// A tile of m x m pixels of dst, m = 2 or 4, is A' [(G g G') * (B' d B)] A, summed over channels
// before the last transform: (m + 2)^2 products of matrices, with tiles as rows. They are
// multiplied by family gemm. That is 2.25 (m = 2) or 4 (m = 4) times fewer multiply-adds than the
// formula above has. The transforms are those of the paper.
//
// Error: at most (I + 40) * 2^-24 * (1 + 2^-10) times the same expression with the magnitudes of
// all matrices, if no term overflows; I is the number of input channels. That is at most 16 (m = 2)
// or 860 (m = 4) times the sum of the weights' magnitudes times the largest source. An infinity or
// a NaN in src makes all results of its tile NaN. Results are the same bits on any number of
// threads.
//
// Bound: the multiply-adds of the products, or the bytes of the transformed weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/api.h"
#include "kernels/gemm/packed.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Pixels of src that one tile reads, by row and column; null outside of the image.
using WinogradPixels = std::array<const float*, 36>;

// The transforms of one tile, for `channels` contiguous channels. Element k of the tile, row by
// row, is `stride` floats after element k - 1.
struct WinogradSrcTile {
  WinogradPixels pixels;
  float* transformed;
  int64_t stride, channels;
};
struct WinogradDstTile {
  const float* products;
  int64_t stride, channels;
  const float* bias;    // null: zeros
  const float* addend;  // null: zeros
  float* dst;
  int64_t rows, columns;                                 // of the tile inside of the image
  int64_t dst_row, dst_pixel, addend_row, addend_pixel;  // strides
  float lowest;
};

struct WinogradTransforms {
  void (*src)(const WinogradSrcTile& tile);
  void (*dst)(const WinogradDstTile& tile);
};
struct WinogradKernels {
  WinogradTransforms of_2, of_4;
};
using WinogradFunction = const WinogradKernels&();

#define CPUACCEL_KERNEL(name) WinogradFunction winograd_##name;
#include "kernels/winograd/kernels.inc"
#undef CPUACCEL_KERNEL

CPUACCEL_API std::span<const KernelRow<WinogradFunction>> winograd_kernels();

// Transformed and packed weights.
class CPUACCEL_API WinogradWeights {
 public:
  // `weights`: (out_channels, in_channels, 3, 3), element (o, i) `strides` apart, and its taps too.
  // `tile` is m, 2 or 4.
  struct Strides {
    int64_t out, in, row, column;
  };
  WinogradWeights(const float* weights, const Strides& strides, int64_t out_channels,
                  int64_t in_channels, int64_t tile);

  // The bytes of such an object.
  static size_t bytes(int64_t out_channels, int64_t in_channels, int64_t tile);
  size_t bytes() const;
  int64_t tile() const { return tile_; }
  int64_t out_channels() const { return out_; }
  int64_t in_channels() const { return in_; }
  const GemmPacked& element(size_t k) const { return packed_[k]; }

 private:
  int64_t out_, in_, tile_;
  std::vector<GemmPacked> packed_;
};

// An image of channels_last layout. Strides count floats; a row is width * pixel.
struct WinogradImage {
  int64_t height, width, pixel, image;
};
struct WinogradCall {
  const float* src;
  WinogradImage from;
  int64_t images, top, left;
  const float* bias;
  const float* addend;
  int64_t addend_pixel, addend_row, addend_image;  // 0 where it is broadcast
  float lowest;
  float* dst;
  WinogradImage to;
};

// Whether each thread computes blocks of tiles of its own. Else threads divide each product: those
// of few channels are too small to be divided among many, and many weights are read by all
// together.
CPUACCEL_API bool winograd_threads_take_blocks(int64_t tiles, size_t weight_bytes);

// Uses the best usable row and all of torch's threads.
CPUACCEL_API void winograd(const WinogradCall& call, const WinogradWeights& weights);

// Uses the given transforms.
CPUACCEL_API void winograd(const WinogradCall& call, const WinogradWeights& weights,
                           WinogradFunction* row);

}  // namespace cpuaccel::kernels
