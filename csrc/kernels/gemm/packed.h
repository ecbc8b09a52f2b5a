// GemmPacked: packed weights, the right matrix B packed once for many calls of gemm.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/api.h"
#include "base/scratch.h"
#include "kernels/gemm/gemm.h"

namespace cpuaccel::kernels {

// K x N elements in the panels of pack.h, one block of k after another, in their original type:
// unpacking gives what was packed, bit for bit. It is passed as GemmCall::packed; b is then
// ignored, and B is the same for the whole batch. The layout is that of one row of the kernel list,
// on which such calls run.
class CPUACCEL_API GemmPacked {
 public:
  // Packs element 0 of b's batch, for the best usable row or a given one, in blocks of that row's
  // packed_kc. Objects in the caller's memory have blocks of kGemmKc.
  GemmPacked(const GemmMatrix& b, int64_t K, int64_t N);
  GemmPacked(const GemmMatrix& b, int64_t K, int64_t N, GemmFunction* for_row);

  // Uses the caller's memory, which must outlive the object: bytes() bytes, written by pack() of
  // this object or of another one like it.
  GemmPacked(void* memory, DataType type, int64_t K, int64_t N, GemmFunction* for_row);
  void pack(const GemmMatrix& b);

  // The same in panels of nr columns, possibly those of another CPU: row() is null, and gemm does
  // not accept it.
  GemmPacked(void* memory, DataType type, int64_t K, int64_t N, int64_t nr);

  int64_t K() const { return K_; }
  int64_t N() const { return N_; }
  int64_t kc() const { return kc_; }  // rows of a block, a multiple of 4
  DataType type() const { return type_; }
  GemmFunction* row() const { return row_; }

  // Memory in use: N is rounded up to panels of 16 (AVX2), 32 (AVX-512) or 12 (NEON) columns, or of
  // three vectors (SVE).
  size_t bytes() const;

  // Writes element (k, n) to dst[k * row_stride + n * column_stride], of type().
  void unpack(void* dst, int64_t row_stride, int64_t column_stride) const;

  // The panel that begins at column n, a multiple of nr, of the block that begins at k.
  const char* panel(int64_t k, int64_t n) const;

 private:
  GemmPacked(void* memory, DataType type, int64_t K, int64_t N, int64_t nr, int64_t most_kc);
  template <typename Write>
  void for_each_panel(const Write& write);
  void pack_floats(const GemmMatrix& b);
  void pack_halves(const GemmMatrix& b);
  template <typename Element>
  void unpack_elements(Element* dst, int64_t row_stride, int64_t column_stride) const;

  int64_t K_, N_, kc_, nr_, padded_;
  DataType type_;
  GemmFunction* row_ = nullptr;
  AlignedBlock owned_;
  char* data_;
};

}  // namespace cpuaccel::kernels
