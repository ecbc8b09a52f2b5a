#include "kernels/gemm_wq/byte_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/scratch.h"
#include "kernels/gemm/pieces.h"
#include "kernels/gemm_wq/few_rows.h"
#include "kernels/qgemm_wq/packed_rows.h"
#include "kernels/three_bytes.h"

namespace cpuaccel::kernels {
namespace {

// Multiply-adds of bytes per thread; about 10 us of work.
constexpr int64_t kThreadWork = 1 << 22;

}  // namespace

bool byte_rows(const GemmWqCall& call, const QgemmWqKernels& kernels) {
  const WqWeights& weights = *call.weights;
  const int64_t K = weights.K();
  auto* memory = static_cast<std::byte*>(scratch(
      ScratchSlot::gemm_b, static_cast<size_t>((call.M + K) * 4 + call.M * kThreeBytes * K)));
  auto* steps = reinterpret_cast<float*>(memory);
  float* buffer = steps + call.M;
  auto* bytes = reinterpret_cast<uint8_t*>(buffer + K);
  for (int64_t m = 0; m < call.M; ++m) {
    const auto step = three_bytes(row_of_floats(call, m, buffer), K, bytes + m * kThreeBytes * K);
    if (!step.has_value()) {
      return false;
    }
    steps[m] = *step;
  }
  const WqPackedRows rows(weights, kernels, reinterpret_cast<const int8_t*>(bytes),
                          call.M * kThreeBytes, kThreeBytes);
  rows.pack();
  const int64_t work = std::max<int64_t>(call.M * kThreeBytes, 4) * kWqColumns * (K + 1);
  for_each_piece(weights.panels(), kThreadWork / work + 1, [&](int64_t panel) {
    for (int64_t m = 0; m < call.M; ++m) {
      alignas(64) float sums[(kThreeBytes + 1) * kWqColumns] = {};  // K may be 0
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
