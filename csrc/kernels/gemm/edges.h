// What lies between the loops of gemm and the caller's matrices.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {

// Writes a block of B from wherever the call has it.
void pack_panels(const GemmCall& call, const GemmKernels& kernels, const PanelBlock& block);

// Rows of A as floats, one after another: A itself where it is that, else a copy in the thread's
// scratch memory, good until the next call. block.rows and block.stride are not read.
struct GemmRows {
  const float* data;
  int64_t stride;
};
GemmRows rows(const GemmCall& call, const GemmKernels& kernels, const RowBlock& block);

struct GemmArea {
  int64_t g;
  int64_t m0, m;
  int64_t n0, n;
};

// An area of dst as floats: dst itself, or scratch memory of the thread.
class GemmResult {
 public:
  GemmResult(const GemmCall& call, const GemmKernels& kernels, const GemmArea& area);

  float* data() const { return data_; }
  int64_t stride() const { return stride_; }

  // Writes beta * c + bias. False: that is zero, and nothing is written.
  bool start() const;

  // Goes on with what an earlier finish() left in dst. Always true.
  bool resume() const;

  // Rounds to dst.
  void finish() const;

 private:
  void load_c() const;
  void add_bias(bool add) const;
  char* dst_row(int64_t m) const;

  const GemmCall& call_;
  const GemmKernels& kernels_;
  const GemmArea area_;
  float* data_;
  int64_t stride_;
};

}  // namespace cpuaccel::kernels
