// Blocks of an unfolded image, as gemm asks for them.
#pragma once

#include "kernels/conv2d_shape.h"
#include "kernels/gemm/pack.h"

namespace cpuaccel::kernels {

// One group of a batch of images; gemm's batch counts images.
struct UnfoldedImages {
  const Conv2dShape* shape;
  const float* src;  // the group's first channel of the first image

  int64_t group_channels() const { return shape->C / shape->groups; }
  int64_t image_floats() const { return shape->C * shape->IH * shape->IW; }
};

// Whether the image is the matrix: one tap, on every pixel.
inline bool conv_is_pointwise(const Conv2dShape& s) {
  return s.taps() == 1 && s.SH == 1 && s.SW == 1 && s.PH == 0 && s.PW == 0;
}

// Channels first: rows of the matrix are (c, kh, kw), columns (oh, ow).
void unfold_panels(const void* images, const PanelBlock& block);

// Channels last: rows of the matrix are (oh, ow), columns (kh, kw, c).
void unfold_rows(const void* images, const RowBlock& block);

}  // namespace cpuaccel::kernels
