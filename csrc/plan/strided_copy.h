// Copies elements between tensors of the same sizes and different strides, on all threads.
#pragma once

#include <cstdint>

#include "plan/tensor_desc.h"

namespace cpuaccel::plan {

class StridedCopy {
 public:
  // Elements have `width` bytes. Both descs have the same sizes, none of which is 0. No two
  // elements of `to` share memory.
  StridedCopy(const TensorDesc& from, const TensorDesc& to, int64_t width);

  // How many bytes are contiguous in both.
  int64_t run_bytes() const { return run_ * width_; }

  // On all threads. The tensors do not overlap.
  void run(const void* from, void* to) const;

 private:
  // The dimensions larger than 1, in the order of `to`. Those that are one in both tensors are
  // merged. If elements of the last one are contiguous in both, it is a run and not listed here.
  Sizes sizes_, from_strides_, to_strides_;
  int64_t run_ = 1;
  int64_t width_;
};

}  // namespace cpuaccel::plan
