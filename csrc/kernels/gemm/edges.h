// Moves data between the caller's matrices and gemm's loops: packing, conversion, start of the
// sums, rounding to dst.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {

// Packs a block of B, from the call's matrix or by its callback.
void pack_panels(const GemmCall& call, const GemmKernels& kernels, const PanelBlock& block);

// The memory that pack_panels would read, for prefetching.
GemmPrefetch panels_source(const GemmCall& call, const PanelBlock& block);

// The memory of rows k0 .. k0 + kc, columns n0 .. n0 + nc of a matrix, for prefetching. None unless
// its rows or columns are contiguous.
GemmPrefetch matrix_source(const GemmMatrix& matrix, int64_t g, int64_t k0, int64_t kc, int64_t n0,
                           int64_t nc);

// The address of element (row, column) of a matrix.
const char* matrix_at(const GemmMatrix& matrix, int64_t g, int64_t row, int64_t column);

// Rows of A as floats: A itself if its rows are contiguous floats, otherwise a copy in the thread's
// scratch memory, valid until the next call. block.rows and block.stride are ignored. If the rows
// are read often (`reused`), rows whose stride maps more of them to a set of L1 than it has ways
// are copied too.
struct GemmRows {
  const float* data;
  int64_t stride;
};
GemmRows rows(const GemmCall& call, const GemmKernels& kernels, const RowBlock& block, bool reused);

// The same for all columns of B.
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

  // Writes beta * c + bias. Returns false if that is zero; nothing is written then.
  bool start() const;

  // The same for tiles. Writes nothing if these values already lie in memory as tiles read them.
  GemmStart tile_start() const;

  // Continues from what an earlier finish() left in dst.
  GemmStart resume() const;

  // Starts from dst as it is.
  GemmStart start_of_dst() const { return {data_, stride_, nullptr}; }

  void clear() const;

  // Rounds the sums to dst. With `last` they are complete, and the call's `after` is applied first.
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
