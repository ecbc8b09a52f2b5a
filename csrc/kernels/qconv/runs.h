// Table of the addresses of a panel's source bytes, pixel by pixel and tap by tap (im2col by
// pointers).
#pragma once

#include <cstdint>

#include "base/scratch_arrays.h"
#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {

// Whether the convolution has one tap, at every pixel of the source.
bool qconv_is_dense_1x1(const QconvShape& shape);

// Bytes that tiles may read from a run's start: all parts, and all four bytes of the last step.
int64_t qconv_reach(const QconvLayout& layout);

// The table of runs, with memory for runs that must be copied because of padding or the end of the
// source.
class QconvRuns {
 public:
  // Bytes that the constructor takes from `memory`.
  static int64_t room(const QconvLayout& layout);

  QconvRuns(const QconvCall& call, ScratchArrays& memory);

  // Layout of QconvPanel::runs.
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
  int64_t reach_;    // qconv_reach()
  int64_t columns_;  // image columns in a run
  bool dense_1x1_;
  const uint8_t** table_;
  uint8_t *padding_, *copies_;
  uint8_t* copy_ = nullptr;  // where the next run is copied
};

}  // namespace cpuaccel::kernels
