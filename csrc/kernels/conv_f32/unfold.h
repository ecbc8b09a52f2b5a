// Blocks of an unfolded image, as gemm takes them.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/conv2d_shape.h"
#include "kernels/gemm/pack.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Whether the image is the matrix: one tap, on every pixel.
inline bool conv_is_pointwise(const Conv2dShape& s) {
  return s.taps() == 1 && s.SH == 1 && s.SW == 1 && s.PH == 0 && s.PW == 0;
}

// Successive columns of a panel that a tap finds in one row of the image: column + i is
// plane[offset + i * SW].
struct UnfoldPiece {
  int64_t column, count, offset;
};

// One tap of a panel, the same for all channels:
//   dst[c * step + j] = plane[c * area + offset + (j - column) * stride] of the piece that has j,
//                       or 0 where none has; 0 <= j < nr, a multiple of 8
struct UnfoldTap {
  const float* plane;
  int64_t area, channels;
  std::span<const UnfoldPiece> pieces;  // by column, disjoint
  int64_t stride;
  float* dst;
  int64_t step, nr;
};
using UnfoldFunction = void(const UnfoldTap& tap);

#if defined(__x86_64__)
#define CPUACCEL_UNFOLD_KERNELS(row) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#else
#define CPUACCEL_UNFOLD_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) UnfoldFunction unfold_##name;
CPUACCEL_UNFOLD_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<UnfoldFunction>> unfold_kernels();

// One group of a batch of images.
struct UnfoldedImages {
  const Conv2dShape* shape;
  const float* src;          // the group's first channel of the first image
  UnfoldFunction* function;  // of unfold_panels

  int64_t group_channels() const { return shape->C / shape->groups; }
  int64_t image_floats() const { return shape->C * shape->IH * shape->IW; }
};

// Channels first: rows of the matrix are (c, kh, kw), columns (oh, ow); block.g is the image.
void unfold_panels(const UnfoldedImages& images, const PanelBlock& block);

// Channels last: rows of the matrix are (oh, ow), columns (kh, kw, c). For gemm: `images` is an
// UnfoldedImages.
void unfold_rows(const void* images, const RowBlock& block);

}  // namespace cpuaccel::kernels
