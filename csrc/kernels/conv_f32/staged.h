// Copies the part of the image that a block of output pixels sees, with its padding, to contiguous
// memory.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/conv2d_shape.h"

namespace cpuaccel::kernels {

// The order of a weight's elements: (c, kh, kw), or (kh, kw, c) with the channels last.
using WeightOrder = ImageLayout;

// The blocks into which an image is split, and their memory layout. Results do not depend on them.
class Staging {
 public:
  Staging(const Conv2dShape& shape, ImageLayout layout, WeightOrder order, int64_t most_floats,
          int64_t blocks_wanted);

  int64_t blocks() const { return blocks_; }  // per image
  int64_t most_pixels() const { return most_pixels_; }

  // Offset k, from a pixel's address, of the image element that weight element k is multiplied by.
  const std::vector<int32_t>& offsets() const { return offsets_; }

  // Floats that load() writes: at most the number asked for, unless one row needs more.
  int64_t floats() const { return floats_; }

  // Prepares a block of an image whose group's first channel is at `src`. Copies what is needed to
  // `memory` and sets pixels[i] to the start of pixel first() + i. Returns the number of pixels.
  int64_t load(const float* src, int64_t block, float* memory, const float** pixels) const;
  int64_t first(int64_t block) const {
    return block / row_blocks_ * rows_ * s_.OW + block % row_blocks_ * columns_;
  }

 private:
  // one_tap: copies selected pixels of each channel; rows: copies rows with their padding;
  // in_place: copies nothing
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
  const int64_t channels_;  // per group
  const int64_t pixel_;     // floats between neighboring pixels
  // Size of a block in dst: whole rows, or a part of one. one_tap: all pixels count as one row.
  int64_t rows_ = 1, columns_ = 1;
  int64_t row_blocks_ = 1;  // blocks that share an output row
  int64_t rows_in_ = 1;     // image rows that a block sees
  int64_t pitch_ = 1;       // pixels from one such row to the next
  int64_t most_pixels_ = 1, blocks_ = 1, floats_ = 0;
  std::vector<int32_t> offsets_;
};

}  // namespace cpuaccel::kernels
