#include "kernels/gemm_wq/byte_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/scratch.h"
#include "kernels/gemm/pieces.h"
#include "kernels/gemm_wq/few_rows.h"
#include "kernels/qgemm_wq/packed_rows.h"

namespace cpuaccel::kernels {
namespace {

// Multiply-adds of bytes per thread; about 10 us of work.
constexpr int64_t kThreadWork = 1 << 22;
constexpr int64_t kPieces = 3;  // high, middle and low
// The largest number of three bytes is 127 * (65536 + 256 + 1). Rounding may add 1 to a step.
constexpr float kLargest = 8355709.0f;
constexpr float kSmallest = kLargest * std::numeric_limits<float>::min();

// The largest |value|; a NaN or an infinity if there is one. Bits of positive floats are in the
// order of the floats, and vectors of integers have a maximum without conditions.
float largest(const float* values, int64_t count) {
  int32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<int32_t>(values[i]) & 0x7fffffff);
  }
  return std::bit_cast<float>(most);
}

// bytes: K of high, K of middle and K of low.
void split(const float* src, float per_step, int64_t K, uint8_t* bytes) {
  // Adding 128 to each byte makes all of them positive; in two's complement, changing the highest
  // bit takes it away again.
  constexpr int32_t kHalves = 0x808080;
  for (int64_t k = 0; k < K; ++k) {
    const float steps = src[k] * per_step;
    const auto whole = static_cast<int32_t>(steps + std::copysign(0.5f, steps));
    const int32_t three = (whole + kHalves) ^ kHalves;
    bytes[k] = static_cast<uint8_t>(three >> 16);
    bytes[K + k] = static_cast<uint8_t>(three >> 8);
    bytes[2 * K + k] = static_cast<uint8_t>(three);
  }
}

}  // namespace

bool byte_rows(const GemmWqCall& call, const QgemmWqKernels& kernels) {
  const WqWeights& weights = *call.weights;
  const int64_t K = weights.K();
  auto* memory = static_cast<std::byte*>(
      scratch(ScratchSlot::gemm_b, static_cast<size_t>((call.M + K) * 4 + call.M * kPieces * K)));
  auto* steps = reinterpret_cast<float*>(memory);
  float* buffer = steps + call.M;
  auto* bytes = reinterpret_cast<uint8_t*>(buffer + K);
  for (int64_t m = 0; m < call.M; ++m) {
    const float* row = row_of_floats(call, m, buffer);
    const float most = largest(row, K);
    if (!std::isfinite(most) || (most > 0.0f && most < kSmallest)) {
      return false;
    }
    steps[m] = most / kLargest;
    split(row, most > 0.0f ? kLargest / most : 0.0f, K, bytes + m * kPieces * K);
  }
  const WqPackedRows rows(weights, kernels, reinterpret_cast<const int8_t*>(bytes),
                          call.M * kPieces, kPieces);
  rows.pack();
  const int64_t work = std::max<int64_t>(call.M * kPieces, 4) * kWqColumns * (K + 1);
  for_each_piece(weights.panels(), kThreadWork / work + 1, [&](int64_t panel) {
    for (int64_t m = 0; m < call.M; ++m) {
      alignas(64) float sums[(kPieces + 1) * kWqColumns] = {};  // K may be 0
      kernels.tile(rows.by_panel(m, 1, weights.panel(panel), sums));
      for (int64_t j = 0; j < kWqColumns; ++j) {
        const float lower = 256.0f * sums[kWqColumns + j] + sums[2 * kWqColumns + j];
        sums[j] = steps[m] * (65536.0f * sums[j] + lower);
      }
      store_rows(call, sums, m, 1, panel * kWqColumns);
    }
  });
  return true;
}

}  // namespace cpuaccel::kernels
