// A block of output pixels and the part of the image that they see, near to each other in memory
// and with its padding.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/conv2d_shape.h"

namespace cpuaccel::kernels {

// Of the elements of a weight: (c, kh, kw), or with the channels last (kh, kw, c).
using WeightOrder = ImageLayout;

// The blocks that an image is taken in, and how they lie in memory. No result depends on them.
class Staging {
 public:
  Staging(const Conv2dShape& shape, ImageLayout layout, WeightOrder order, int64_t most_floats,
          int64_t blocks_wanted);

  int64_t blocks() const { return blocks_; }  // of an image
  int64_t most_pixels() const { return most_pixels_; }

  // Where what element k of a weight is multiplied with is seen from a pixel.
  const std::vector<int32_t>& offsets() const { return offsets_; }

  // Floats that load() writes: as many as were asked for, unless a row's worth is more.
  int64_t floats() const { return floats_; }

  // A block of an image, whose group's first channel is at `src`: copies to `memory` what has to
  // be, and sets pixels[i] to where pixel first() + i begins. Returns how many there are.
  int64_t load(const float* src, int64_t block, float* memory, const float** pixels) const;
  int64_t first(int64_t block) const {
    return block / row_blocks_ * rows_ * s_.OW + block % row_blocks_ * columns_;
  }

 private:
  // one tap: chosen pixels of each channel; rows: with their padding; in place: nothing is copied
  enum class Form : uint8_t { one_tap, rows, in_place };
  static Form form_of(const Conv2dShape& shape, ImageLayout layout);

  void set_offsets(WeightOrder order);
  void by_pixels(int64_t most_floats, int64_t blocks_wanted);
  void by_rows(int64_t most_floats, int64_t blocks_wanted);
  void load_one_tap(const float* src, int64_t first, int64_t count, float* memory) const;
  void load_rows(const float* src, int64_t oh, int64_t ow, int64_t rows, float* memory) const;

  const Conv2dShape s_;
  const bool last_;  // channels last
  const Form form_;
  const int64_t channels_;  // of a group
  const int64_t pixel_;     // floats from one pixel to the next
  // Of a block, in the result: whole rows, or a part of one. One tap: all pixels are one row.
  int64_t rows_ = 1, columns_ = 1;
  int64_t row_blocks_ = 1;  // of a row, one after the other
  int64_t rows_in_ = 1;     // of the image, that a block sees
  int64_t pitch_ = 1;       // pixels from one of them to the next
  int64_t most_pixels_ = 1, blocks_ = 1, floats_ = 0;
  std::vector<int32_t> offsets_;
};

}  // namespace cpuaccel::kernels
