#include "kernels/gemm_w8/finish.h"
#include "kernels/gemm_w8/gemm_w8.h"
#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

// The layout of qgemm_ref().
constexpr int64_t kRows = 4, kColumns = 6, kRun = 8;

void tile(const GemmW8Tile& t) {
  for (int64_t i = 0; i < t.width; ++i) {
    for (int64_t j = 0; j < t.n; ++j) {
      float sum = t.add ? t.sums[i * kColumns + j] : 0.0f;
      for (int64_t k = 0; k < t.runs * kRun; ++k) {
        const auto weight =
            static_cast<float>(t.panel[(k / kRun * kColumns + j) * kRun + k % kRun]);
        sum +=
            t.rows[k * t.width + i] * (t.floats != nullptr ? t.floats[k * kColumns + j] : weight);
      }
      t.sums[i * kColumns + j] = sum;
    }
  }
}

void widen(const int8_t* panel, int64_t runs, float* floats) {
  for (int64_t k = 0; k < runs * kRun; ++k) {
    for (int64_t j = 0; j < kColumns; ++j) {
      floats[k * kColumns + j] =
          static_cast<float>(panel[(k / kRun * kColumns + j) * kRun + k % kRun]);
    }
  }
}

}  // namespace

const GemmW8Kernels& gemm_w8_ref() {
  static constexpr GemmW8Kernels kernels{kRows, kColumns, kRun, tile, widen, finish, add_bytes};
  return kernels;
}

}  // namespace cpuaccel::kernels
