#include "kernels/qgemm_wq/qgemm_wq.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "kernels/gemm/pieces.h"
#include "kernels/qgemm_wq/packed_rows.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<QgemmWqFunction>, name, qgemm_wq_##name)
#include "kernels/qgemm_wq/kernels.inc"
#undef CPUACCEL_KERNEL
};

// Multiply-adds per thread; about 10 us of work.
constexpr int64_t kThreadWork = 1 << 22;
constexpr int64_t kTileRows = 8;

class Product {
 public:
  Product(const QgemmWqCall& call, const QgemmWqKernels& kernels)
      : call_(call),
        kernels_(kernels),
        weights_(*call.weights),
        rows_(weights_, kernels, call.src, call.M, kTileRows) {}

  void run() const {
    rows_.pack();
    const int64_t work = std::max<int64_t>(call_.M, 4) * kWqColumns * (weights_.K() + 1);
    for_each_piece(weights_.panels(), kThreadWork / work + 1,
                   [&](int64_t panel) { multiply(panel); });
  }

 private:
  // How many tiles from this one on make a call. The last tile may be narrower than the others.
  int64_t at_once(int64_t tile) const {
    const int64_t left = rows_.tiles() - tile;
    const bool last_is_narrow = rows_.width(rows_.tiles() - 1) < kTileRows;
    return std::min(kWqTiles, left > 1 && last_is_narrow ? left - 1 : left);
  }

  void multiply(int64_t panel) const {
    for (int64_t tile = 0; tile < rows_.tiles();) {
      constexpr int64_t kSums = kTileRows * kWqColumns;
      const int64_t count = at_once(tile);
      alignas(64) float sums_of_tiles[kWqTiles * kSums];
      std::fill_n(sums_of_tiles, count * kSums, 0.0f);  // K may be 0
      if (rows_.tiles() > 1) {
        const int64_t m = rows_.first_row(tile), last = tile + count - 1;
        const int64_t n0 = panel * kWqColumns;
        prefetch_columns(call_.dst, m, rows_.first_row(last) + rows_.rows(last) - m, n0,
                         std::min(kWqColumns, weights_.N() - n0));
      }
      kernels_.tile(rows_.by_panel(tile, count, weights_.panel(panel), sums_of_tiles));
      for (const int64_t end = tile + count; tile < end; ++tile) {
        store(sums_of_tiles + (count - (end - tile)) * kSums, tile, panel);
      }
    }
  }

  // Overwrites the sums.
  void store(float* sums_of_tile, int64_t tile, int64_t panel) const {
    const int64_t n0 = panel * kWqColumns, count = std::min(kWqColumns, weights_.N() - n0);
    float of_weights[kWqColumns], bias[kWqColumns] = {};
    std::memcpy(of_weights, weights_.panel(panel) + weights_.layout().sums_offset(),
                sizeof(of_weights));
    if (call_.bias != nullptr) {
      std::copy_n(call_.bias + n0, count, bias);
    }
    for (int64_t i = 0; i < rows_.rows(tile); ++i, sums_of_tile += kWqColumns) {
      const int64_t m = rows_.first_row(tile) + i;
      const float scale = call_.scales[m];
      const auto zero_point =
          static_cast<float>(call_.zero_points != nullptr ? call_.zero_points[m] : 0);
      // All columns, whose number is known, as vectors.
      for (int64_t j = 0; j < kWqColumns; ++j) {
        const float sum = sums_of_tile[j] - zero_point * of_weights[j];
        sums_of_tile[j] = scale * sum + bias[j];
      }
      write_columns(call_.dst, sums_of_tile, m, n0, count);
    }
  }

  const QgemmWqCall& call_;
  const QgemmWqKernels& kernels_;
  const WqWeights& weights_;
  const WqPackedRows rows_;
};

}  // namespace

std::span<const KernelRow<QgemmWqFunction>> qgemm_wq_kernels() { return kRows; }

void qgemm_wq(const QgemmWqCall& call, QgemmWqFunction* row) {
  if (call.M > 0 && call.weights->N() > 0) {
    Product(call, row()).run();
  }
}

void qgemm_wq(const QgemmWqCall& call) {
  qgemm_wq(call, first_usable(qgemm_wq_kernels()).function);
}

}  // namespace cpuaccel::kernels
