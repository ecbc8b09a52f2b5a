#include "kernels/qgemm_wq/qgemm_wq.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "base/scratch.h"
#include "kernels/gemm/half.h"
#include "kernels/gemm/pieces.h"
#include "kernels/round_up.h"

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
// Bytes of rows that are packed by one thread.
constexpr int64_t kPackGrain = 65536;

int64_t sum_of(const int8_t* bytes, int64_t count) {
  constexpr int64_t kAtOnce = 16;  // known, so that they are added as vectors
  int64_t sum = 0;
  for (; count >= kAtOnce; count -= kAtOnce, bytes += kAtOnce) {
    int32_t part = 0;
    for (int64_t k = 0; k < kAtOnce; ++k) {
      part += bytes[k];
    }
    sum += part;
  }
  for (int64_t k = 0; k < count; ++k) {
    sum += bytes[k];
  }
  return sum;
}

class Product {
 public:
  Product(const QgemmWqCall& call, QgemmWqFunction* tile)
      : call_(call),
        tile_(tile),
        weights_(*call.weights),
        format_(weights_.format()),
        groups_(weights_.layout().groups),
        padded_(round_up(format_.group, std::max(format_.run(), kWqRowRun))),
        tiles_(divide_up(call.M, kTileRows)) {
    const int64_t sums = tiles_ * kTileRows * groups_;
    const int64_t bytes = sums * padded_;
    auto* memory = static_cast<std::byte*>(
        scratch(ScratchSlot::gemm_a, static_cast<size_t>(bytes + 2 * sums * int64_t{4})));
    rows_ = reinterpret_cast<int32_t*>(memory);
    sums_ = reinterpret_cast<float*>(memory + bytes);
    starts_ = rows_ + (bytes / 4 + sums);
  }

  void run() const {
    for_each_piece(tiles_, kPackGrain / (kTileRows * (weights_.K() + 1)) + 1,
                   [&](int64_t tile) { pack(tile); });
    const int64_t work = std::max<int64_t>(call_.M, 4) * kWqColumns * (weights_.K() + 1);
    for_each_piece(weights_.panels(), kThreadWork / work + 1,
                   [&](int64_t panel) { multiply(panel); });
  }

 private:
  int64_t rows_of(int64_t tile) const { return std::min(kTileRows, call_.M - tile * kTileRows); }
  // The number of rows that the tile's function is made for.
  int64_t width_of(int64_t tile) const {
    const int64_t m = rows_of(tile);
    return m <= 2 ? m : m <= 4 ? 4 : 8;
  }
  int32_t* packed(int64_t tile) const { return rows_ + tile * kTileRows * groups_ * padded_ / 4; }
  float* sums(int64_t tile) const { return sums_ + tile * kTileRows * groups_; }
  bool has_starts() const { return format_.group <= kWqStart; }
  int32_t* starts(int64_t tile) const { return starts_ + tile * kTileRows * groups_; }

  void pack(int64_t tile) const {
    const int64_t width = width_of(tile);
    std::fill_n(packed(tile), width * groups_ * padded_ / 4, 0);
    std::fill_n(sums(tile), width * groups_, 0.0f);
    std::fill_n(starts(tile), width * groups_, 0);
    for (int64_t i = 0; i < rows_of(tile); ++i) {
      const int8_t* from = call_.src + (tile * kTileRows + i) * weights_.K();
      for (int64_t g = 0; g < groups_; ++g, from += format_.group) {
        pack_group(from, packed(tile) + g * padded_ / 4 * width, i, width);
        sums(tile)[g * width + i] = static_cast<float>(sum_of(from, format_.group));
        if (has_starts()) {
          starts(tile)[g * width + i] = start_of(from);
        }
      }
    }
  }

  int32_t start_of(const int8_t* from) const {
    int16_t halves[2] = {};
    for (int64_t k = 0; k < format_.group; ++k) {
      halves[k % 4 / 2] = static_cast<int16_t>(halves[k % 4 / 2] - 8 * from[k]);
    }
    int32_t start;
    std::memcpy(&start, halves, sizeof(start));
    return start;
  }

  void pack_group(const int8_t* from, int32_t* to, int64_t i, int64_t width) const {
    const int64_t whole = format_.group / kWqRowRun, rest = format_.group % kWqRowRun;
    auto* bytes = reinterpret_cast<int8_t*>(to) + i * kWqRowRun;
    for (int64_t run = 0; run < whole; ++run) {
      std::memcpy(bytes + run * width * kWqRowRun, from + run * kWqRowRun, kWqRowRun);
    }
    if (rest > 0) {
      std::memcpy(bytes + whole * width * kWqRowRun, from + whole * kWqRowRun,
                  static_cast<size_t>(rest));
    }
  }

  // How many tiles from this one on make a call. The last tile may be narrower than the others.
  int64_t at_once(int64_t tile) const {
    const int64_t left = tiles_ - tile;
    return std::min(kWqTiles, left > 1 && width_of(tiles_ - 1) < kTileRows ? left - 1 : left);
  }

  void multiply(int64_t panel) const {
    const WqLayout& layout = weights_.layout();
    for (int64_t tile = 0; tile < tiles_;) {
      constexpr int64_t kSums = kTileRows * kWqColumns;
      const int64_t count = at_once(tile);
      alignas(64) float sums_of_tiles[kWqTiles * kSums];
      std::fill_n(sums_of_tiles, count * kSums, 0.0f);  // K may be 0
      tile_({.tiles = count,
             .rows = packed(tile),
             .row_sums = sums(tile),
             .starts = has_starts() ? starts(tile) : nullptr,
             .width = width_of(tile),
             .panel = weights_.panel(panel),
             .format = &format_,
             .layout = &layout,
             .sums = sums_of_tiles});
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
    for (int64_t i = 0; i < rows_of(tile); ++i, sums_of_tile += kWqColumns) {
      const int64_t m = tile * kTileRows + i;
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
  QgemmWqFunction* const tile_;
  const WqWeights& weights_;
  const WqFormat& format_;
  const int64_t groups_, padded_, tiles_;
  int32_t* rows_;
  float* sums_;
  int32_t* starts_;
};

}  // namespace

std::span<const KernelRow<QgemmWqFunction>> qgemm_wq_kernels() { return kRows; }

void qgemm_wq(const QgemmWqCall& call, QgemmWqFunction* row) {
  if (call.M > 0 && call.weights->N() > 0) {
    Product(call, row).run();
  }
}

void qgemm_wq(const QgemmWqCall& call) {
  qgemm_wq(call, first_usable(qgemm_wq_kernels()).function);
}

}  // namespace cpuaccel::kernels
