// WqDst: where families gemm_wq and qgemm_wq write, and what they do to a result before.
//
//   dst[m,n] = function(result[m,n]) * times[m,n] + plus[m,n]
//
// All of it is f32, rounded once to dst's type; many rows of gemm_wq with `times` or `plus` are
// rounded before it, too.
#pragma once

#include <cstdint>

#include "base/data_type.h"
#include "kernels/gemm/types.h"

namespace cpuaccel::kernels {

struct WqDst {
  void* data = nullptr;
  DataType type = DataType::f32;  // or bf16, f16
  int64_t stride = 0;             // elements from a row to the next, also of times and plus
  GemmAfter function{};
  // Of dst's type and no memory of dst; null means ones, and zeros.
  const void* times = nullptr;
  const void* plus = nullptr;
};

// Prefetches what write_columns() will read and write in rows [m, m + rows). Rows lie far apart, so
// the hardware does not. A prompt of 512 tokens waited for `times` a seventh of its time (Zen 4).
void prefetch_columns(const WqDst& dst, int64_t m, int64_t rows, int64_t n0, int64_t count);

// Writes `count` columns from n0 on of row m. Overwrites `results`.
void write_columns(const WqDst& dst, float* results, int64_t m, int64_t n0, int64_t count);

// Multiplies by times and adds plus, for a dst of M x N that has everything else.
void apply_operands(const WqDst& dst, int64_t M, int64_t N);

}  // namespace cpuaccel::kernels
