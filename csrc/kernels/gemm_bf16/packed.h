// GemmBf16Packed: packed weights of gemm_bf16, a right matrix rounded and packed once for many
// calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/api.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm_bf16/gemm_bf16.h"

namespace cpuaccel::kernels {

// b is K x N of f32 (rounded to nearest even) or bf16. The caller's memory must outlive the object:
// bytes() bytes, written by pack() of this object or of another one like it.
class CPUACCEL_API GemmBf16Packed {
 public:
  GemmBf16Packed(void* memory, int64_t K, int64_t N, GemmBf16Function* for_row);
  void pack(const GemmMatrix& b);

  int64_t K() const { return K_; }
  int64_t N() const { return pairs_.N(); }
  GemmBf16Function* row() const { return row_; }
  const GemmPacked& pairs() const { return pairs_; }

  // Two bytes per element, with K rounded up to what the row takes at once and N to its panels.
  size_t bytes() const { return pairs_.bytes(); }

  // Writes element (k, n) to dst[k * row_stride + n * column_stride], as bf16.
  void unpack(uint16_t* dst, int64_t row_stride, int64_t column_stride) const;

 private:
  int64_t K_;
  GemmBf16Function* row_;
  GemmPacked pairs_;  // its floats are pairs
};

// gemm_bf16 with packed b; call.b, call.packed and call.pack_b are ignored.
CPUACCEL_API void gemm_bf16(const GemmCall& call, const GemmBf16Packed& b);

}  // namespace cpuaccel::kernels
