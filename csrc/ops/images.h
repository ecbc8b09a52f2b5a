// Results of ops on batches of images that are computed channels last.
#pragma once

#include "ops/quint8.h"

namespace cpuaccel::ops {

// Images of one pixel, or of one channel, are in both layouts. Torch gives results of such images
// the strides their own strides suggest, and here they get those too; but where the two layouts of
// the result differ, torch's kernels leave channels-last values in a contiguous tensor.

// For `height` x `width` images made channels last of those of `x`, which is channels last.
inline at::Tensor empty_images_as(const at::Tensor& x, int64_t height, int64_t width) {
  const bool one_layout = x.size(1) == 1 || height * width == 1 || x.numel() == 0;
  return empty_quantized_as(
      x, {x.size(0), x.size(1), height, width},
      one_layout ? x.suggest_memory_format() : at::MemoryFormat::ChannelsLast);
}

// The images that empty_images_as() made, filled, with the strides that torch's result has.
inline at::Tensor with_torch_strides(const at::Tensor& images, const at::Tensor& x) {
  return images.contiguous(x.suggest_memory_format());
}

}  // namespace cpuaccel::ops
