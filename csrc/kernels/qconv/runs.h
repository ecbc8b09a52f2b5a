// Where the source bytes of a panel's pixels lie, tap by tap.
#pragma once

#include <cstdint>

#include "base/scratch_pieces.h"
#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {

// Whether the convolution has one tap, at each pixel of the source.
bool qconv_is_dense_1x1(const QconvShape& shape);

// The table of runs, with room for those that are not in the source as they are read.
class QconvRuns {
 public:
  // What it takes of `memory`.
  static int64_t room(const QconvLayout& layout);

  QconvRuns(const QconvCall& call, ScratchPieces& memory);

  // As QconvPanel::runs.
  const uint8_t** table() const { return table_; }

  // Fills the table for pixels [first, first + count) of N*OH*OW, at most a panel.
  void fill(int64_t first, int64_t count);

 private:
  void fill_row(const uint8_t** to, int64_t count, int64_t n, int64_t ih, int64_t iw);
  const uint8_t* run(const uint8_t* row, int64_t iw);
  void repeat_last(int64_t count);

  const QconvCall& call_;
  const QconvShape& shape_;
  const QconvLayout& layout_;
  const uint8_t* src_end_;
  int64_t reach_;    // what a tile may read from a run's start
  int64_t columns_;  // of the image that a run holds
  bool dense_1x1_;
  const uint8_t** table_;
  uint8_t *padding_, *copies_;
  uint8_t* copy_ = nullptr;  // where the next run is put together
};

}  // namespace cpuaccel::kernels
