// Output tensors of quantized image ops that compute channels last.
#pragma once

#include "torch_ao/names.h"
#include "torch_ao/quint8.h"

namespace cpuaccel::torch_ao {

// The reason for a fallback with images `x`, or null if they are quint8 and channels last.
inline const char* images_fallback_reason(const at::Tensor& x) {
  if (const char* reason = quint8_fallback_reason(x)) {
    return reason;
  }
  return x.dim() == 4 && x.is_contiguous(at::MemoryFormat::ChannelsLast)
             ? nullptr
             : reasons::kNotChannelsLast;
}

// Images of one pixel, or of one channel, are in both layouts. torch gives the results of such
// images the strides that the input's strides suggest, and cpuaccel does too. But where the two
// layouts of the result differ, torch's kernels leave channels-last values in a contiguous tensor.

// Uninitialized channels-last images of `height` x `width`, with the quantizer of `x`, which is
// channels last.
inline at::Tensor empty_images_as(const at::Tensor& x, int64_t height, int64_t width) {
  const bool one_layout = x.size(1) == 1 || height * width == 1 || x.numel() == 0;
  return empty_quantized_as(
      x, {x.size(0), x.size(1), height, width},
      one_layout ? x.suggest_memory_format() : at::MemoryFormat::ChannelsLast);
}

// Filled images of empty_images_as(), with the strides of torch's result.
inline at::Tensor with_torch_strides(const at::Tensor& images, const at::Tensor& x) {
  return images.contiguous(x.suggest_memory_format());
}

}  // namespace cpuaccel::torch_ao
