#include <algorithm>
#include <cmath>

#include "kernels/gemm/half.h"
#include "kernels/quantize_by_row/quantize_by_row.h"

namespace cpuaccel::kernels {
namespace {

RowRange range(const void* src, DataType type, int64_t K) {
  RowRange result;
  for (int64_t k = 0; k < K; ++k) {
    const float x = element_to_float(src, type, k);
    result.least = std::fmin(result.least, x);
    result.most = std::fmax(result.most, x);
    result.finite = result.finite && std::isfinite(x);
  }
  return result;
}

void quantize(const void* src, DataType type, int8_t* dst, int64_t K, const RowQuantizer& by) {
  for (int64_t k = 0; k < K; ++k) {
    const float x = element_to_float(src, type, k);
    const float value = std::nearbyint(x * by.inverse_scale) + by.zero_point;
    dst[k] = static_cast<int8_t>(std::fmin(std::fmax(value, by.low), by.high));
  }
}

}  // namespace

const QuantizeByRowKernels& quantize_by_row_ref() {
  static constexpr QuantizeByRowKernels kernels{range, quantize};
  return kernels;
}

}  // namespace cpuaccel::kernels
