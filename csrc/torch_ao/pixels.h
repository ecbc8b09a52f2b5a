// The distance between pixels in images whose channels lie side by side: channels last, or a slice
// of their channels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace cpuaccel::torch_ao {

// The distance between the pixels of an N x C x H x W tensor, in elements, if each pixel is C
// adjacent elements and the pixels follow each other in order. nullopt for any other layout.
inline std::optional<int64_t> pixel_pitch(const at::Tensor& x) {
  if (x.dim() != 4 || x.numel() == 0 || (x.stride(1) != 1 && x.size(1) > 1)) {
    return std::nullopt;
  }
  const int64_t H = x.size(2), W = x.size(3);
  // A dimension of size 1 may have any stride: the pitch comes from the first that is longer.
  const int64_t pitch = W > 1           ? x.stride(3)
                        : H > 1         ? x.stride(2)
                        : x.size(0) > 1 ? x.stride(0)
                                        : x.size(1);
  const bool in_order = (H == 1 || x.stride(2) == pitch * W) &&
                        (x.size(0) == 1 || x.stride(0) == pitch * W * H) && pitch >= x.size(1);
  return in_order ? std::optional(pitch) : std::nullopt;
}

}  // namespace cpuaccel::torch_ao
