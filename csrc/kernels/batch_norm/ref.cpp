#include <cmath>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {
namespace {

// dst = each(src, c) for all elements.
template <typename T, typename Each>
void for_all(const BatchNormNumbers& numbers, const BatchNormRows<T>& rows, Each each) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    for (int64_t c = 0; c < numbers.columns; ++c) {
      rows.dst[r * rows.dst_stride + c] = each(rows.src[r * rows.src_stride + c], c);
    }
  }
}

float affine(const BatchNormNumbers& numbers, float src, int64_t c) {
  const float value = std::fma(src, numbers.scale[c], numbers.shift[c]);
  return value < numbers.lowest ? numbers.lowest : value;
}

void affine_f32(const BatchNormNumbers& numbers, const BatchNormRows<float>& rows) {
  for_all(numbers, rows, [&](float src, int64_t c) { return affine(numbers, src, c); });
}

void affine_bf16(const BatchNormNumbers& numbers, const BatchNormRows<uint16_t>& rows) {
  for_all(numbers, rows, [&](uint16_t src, int64_t c) {
    return float_to_bf16(affine(numbers, bf16_to_float(src), c));
  });
}

constexpr BatchNormKernels kKernels{1, affine_f32, affine_bf16};

}  // namespace

const BatchNormKernels& batch_norm_ref() { return kKernels; }

}  // namespace cpuaccel::kernels
