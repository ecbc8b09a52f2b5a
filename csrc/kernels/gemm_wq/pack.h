// Packs whole weights from plain codes, scales and zero points.
#pragma once

#include <cstdint>

#include "base/api.h"
#include "kernels/gemm_wq/weights.h"

namespace cpuaccel::kernels {

// weights[k,n] = (codes[n,k] - zeros[n,g]) * scales[n,g]. Codes of 4 bits are -8 to 7, those of
// 8 bits -128 to 127.
struct WqPlain {
  const int8_t* codes = nullptr;  // N x K
  int64_t n_stride = 0, k_stride = 1;
  const float* scales = nullptr;  // N x groups, dense; zeros likewise
  const float* zeros = nullptr;   // integers of the codes' range, or reals; not read if none
};

// Packs all panels of `weights`, whose format says what zeros are, on all threads. Returns false if
// a code or a zero of integers is out of range; the weights are of no use then.
CPUACCEL_API bool pack_plain(const WqPlain& plain, WqWeights& weights);

}  // namespace cpuaccel::kernels
