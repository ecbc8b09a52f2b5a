// What the results of a convolution are cut by, whoever describes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace cpuaccel::dnnl_layer {

enum class SlicedBy : uint8_t { images, pixels, rows };

// Sizes of the kernel, steps between results, and padding before and behind, by dimension of an
// image.
struct Taps {
  std::span<const int64_t> kernel, stride, before, behind;

  // Whether each result is made of the pixel at its place.
  bool are_pixelwise() const {
    const auto all_are = [](std::span<const int64_t> numbers, int64_t value) {
      return std::all_of(numbers.begin(), numbers.end(),
                         [&](int64_t each) { return each == value; });
    };
    return all_are(kernel, 1) && all_are(stride, 1) && all_are(before, 0) && all_are(behind, 0);
  }
};

// By images; one image by pixels of a 1x1 convolution, else by rows.
inline SlicedBy sliced_by(int64_t images, const Taps& taps) {
  return images > 1 ? SlicedBy::images : taps.are_pixelwise() ? SlicedBy::pixels : SlicedBy::rows;
}

}  // namespace cpuaccel::dnnl_layer
