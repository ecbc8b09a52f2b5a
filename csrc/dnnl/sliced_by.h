// SlicedBy: how the results of a convolution are split into slices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace cpuaccel::dnnl_layer {

enum class SlicedBy : uint8_t { images, pixels, rows };

// Kernel sizes, strides, and padding before and behind, by spatial dimension.
struct Taps {
  std::span<const int64_t> kernel, stride, before, behind;

  // Whether each result depends only on the pixel at its place, as for a 1x1 convolution.
  bool are_pixelwise() const {
    const auto all_are = [](std::span<const int64_t> numbers, int64_t value) {
      return std::all_of(numbers.begin(), numbers.end(),
                         [&](int64_t each) { return each == value; });
    };
    return all_are(kernel, 1) && all_are(stride, 1) && all_are(before, 0) && all_are(behind, 0);
  }
};

// By images; a single image by pixels if the convolution is 1x1, else by rows.
inline SlicedBy sliced_by(int64_t images, const Taps& taps) {
  return images > 1 ? SlicedBy::images : taps.are_pixelwise() ? SlicedBy::pixels : SlicedBy::rows;
}

}  // namespace cpuaccel::dnnl_layer
