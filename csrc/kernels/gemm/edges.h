// What lies between the loops of gemm and the caller's matrices.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {

// Writes a block of B from wherever the call has it.
void pack_panels(const GemmCall& call, const GemmKernels& kernels, const PanelBlock& block);

// What pack_panels would read.
GemmPrefetch panels_source(const GemmCall& call, const PanelBlock& block);

// Rows k0 .. k0 + kc, columns n0 .. n0 + nc of a matrix, if its rows or columns are runs of memory.
GemmPrefetch matrix_source(const GemmMatrix& matrix, int64_t g, int64_t k0, int64_t kc, int64_t n0,
                           int64_t nc);

// Where element (row, column) of a matrix is.
const char* matrix_at(const GemmMatrix& matrix, int64_t g, int64_t row, int64_t column);

// Rows of A as floats: A itself where it is that, else a copy in the thread's scratch memory, good
// until the next call. block.rows and block.stride are not read. If they are read often (`reused`),
// rows whose distance puts more of them into a set of L1 than it holds are copied too.
struct GemmRows {
  const float* data;
  int64_t stride;
};
GemmRows rows(const GemmCall& call, const GemmKernels& kernels, const RowBlock& block, bool reused);

// The same of columns of B, all of them.
GemmRows columns(const GemmCall& call, const GemmKernels& kernels, int64_t g);

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

  // The same for tiles, without writing it where it lies somewhere as they read it.
  GemmStart tile_start() const;

  // Goes on with what an earlier finish() left in dst.
  GemmStart resume() const;

  // dst as it is.
  GemmStart start_of_dst() const { return {data_, stride_, nullptr}; }

  // Writes zeros.
  void clear() const;

  // Rounds to dst what the sums are; with `last` they are whole, and what follows comes before.
  void finish(bool last = true) const;

 private:
  void load_c() const;
  const float* bias_by_column() const;
  void add_bias(bool add) const;
  void add_bias_by_row(bool add) const;
  char* dst_row(int64_t m) const;

  const GemmCall& call_;
  const GemmKernels& kernels_;
  const GemmArea area_;
  float* data_;
  int64_t stride_;
};

}  // namespace cpuaccel::kernels
