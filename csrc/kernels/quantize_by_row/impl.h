// The loops of quantize_by_row on a vector class V of kernels/float_vectors, which also has
// store_bytes: kByteVectors vectors, rounded to nearest even, plus a zero point, as int8. They lie
// within int8's range after the addition. The conversions to floats are plain loops, which the
// compiler vectorizes. Included by ISA sources.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/gemm/half.h"
#include "kernels/inline.h"
#include "kernels/quantize_by_row/quantize_by_row.h"

namespace cpuaccel::kernels {
namespace {

// Elements of a block: a multiple of every V::kLanes.
constexpr int64_t kBlock = 128;

// `count` elements from `first` on as floats, followed by zeros up to the end of the block. Whole
// blocks of f32 stay where they are.
CPUACCEL_INLINE const float* block_at(const void* src, DataType type, int64_t first, int64_t count,
                                      float (&block)[kBlock]) {
  if (type == DataType::f32) {
    const float* from = static_cast<const float*>(src) + first;
    if (count == kBlock) [[likely]] {
      return from;
    }
    std::fill_n(block, kBlock, 0.0f);
    std::memcpy(block, from, static_cast<size_t>(count) * sizeof(*from));
    return block;
  }
  uint16_t halves[kBlock] = {};
  std::memcpy(halves, static_cast<const uint16_t*>(src) + first,
              static_cast<size_t>(count) * sizeof(halves[0]));
  if (type == DataType::bf16) {
    for (int64_t i = 0; i < kBlock; ++i) {
      block[i] = bf16_to_float(halves[i]);
    }
  } else {
    for (int64_t i = 0; i < kBlock; ++i) {
      block[i] = f16_to_float(halves[i]);
    }
  }
  return block;
}

template <typename V>
RowRange range_of(const void* src, DataType type, int64_t K) {
  using Vector = typename V::Vector;
  constexpr int kSums = 2;
  alignas(64) float block[kBlock];
  const Vector zero = V::set1(0.0f);
  Vector least[kSums] = {zero, zero}, most[kSums] = {zero, zero};
  // x * 0 is NaN for infinities and NaNs.
  Vector zeros[kSums] = {zero, zero};
  for (int64_t k = 0; k < K; k += kBlock) {
    const float* from = block_at(src, type, k, std::min(kBlock, K - k), block);
    for (int64_t i = 0; i < kBlock; i += kSums * V::kLanes) {
      for (int sum = 0; sum < kSums; ++sum) {
        const Vector x = V::load(from + i + sum * V::kLanes);
        least[sum] = V::min(x, least[sum]);
        most[sum] = V::max(x, most[sum]);
        zeros[sum] = V::fma(x, zero, zeros[sum]);
      }
    }
  }
  float lanes[3][V::kLanes];
  V::store(lanes[0], V::min(least[0], least[1]));
  V::store(lanes[1], V::max(most[0], most[1]));
  V::store(lanes[2], V::add(zeros[0], zeros[1]));
  RowRange range;
  for (int64_t i = 0; i < V::kLanes; ++i) {
    range.least = lanes[0][i] < range.least ? lanes[0][i] : range.least;
    range.most = lanes[1][i] > range.most ? lanes[1][i] : range.most;
    range.finite = range.finite && lanes[2][i] == 0.0f;
  }
  return range;
}

// Clamping before rounding gives the same integers, because the limits are integers.
template <typename V>
void quantize_row(const void* src, DataType type, int8_t* dst, int64_t K, const RowQuantizer& by) {
  using Vector = typename V::Vector;
  constexpr int64_t kBytes = V::kByteVectors * V::kLanes;
  alignas(64) float block[kBlock];
  const Vector inverse_scale = V::set1(by.inverse_scale);
  const Vector low = V::set1(by.low - by.zero_point), high = V::set1(by.high - by.zero_point);
  const auto zero_point = static_cast<int32_t>(by.zero_point);
  for (int64_t k = 0; k < K; k += kBlock) {
    const int64_t count = std::min(kBlock, K - k);
    const float* from = block_at(src, type, k, count, block);
    int8_t bytes[kBlock];
    int8_t* to = count == kBlock ? dst + k : bytes;
    for (int64_t i = 0; i < kBlock; i += kBytes) {
      Vector limited[V::kByteVectors];
      for (int64_t j = 0; j < V::kByteVectors; ++j) {
        const Vector x = V::multiply(V::load(from + i + j * V::kLanes), inverse_scale);
        limited[j] = V::min(V::max(x, low), high);
      }
      V::store_bytes(to + i, limited, zero_point);
    }
    if (count < kBlock) {
      std::memcpy(dst + k, bytes, static_cast<size_t>(count));
    }
  }
}

template <typename V>
constexpr QuantizeByRowKernels kQuantizeByRow{range_of<V>, quantize_row<V>};

}  // namespace
}  // namespace cpuaccel::kernels
