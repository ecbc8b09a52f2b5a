// Numbers copied between tensors of one size that lie in different orders.
#pragma once

#include <cstdint>

#include "graph/tensor_desc.h"

namespace cpuaccel::graph {

class StridedCopy {
 public:
  // Numbers of `width` bytes. Both descs have the same sizes, none 0; no two numbers of `to` have
  // one place.
  StridedCopy(const TensorDesc& from, const TensorDesc& to, int64_t width);

  // How many bytes lie side by side in both.
  int64_t run_bytes() const { return run_ * width_; }

  // On all threads. The tensors do not overlap.
  void run(const void* from, void* to) const;

 private:
  // Of dimensions of more than one number in the order of `to`, those that lie like one as one. The
  // last, where its numbers lie side by side in both, is not among them: it is a run.
  Sizes sizes_, from_strides_, to_strides_;
  int64_t run_ = 1;
  int64_t width_;
};

}  // namespace cpuaccel::graph
