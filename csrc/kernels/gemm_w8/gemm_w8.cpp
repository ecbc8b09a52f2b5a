#include "kernels/gemm_w8/gemm_w8.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/gemm/half.h"
#include "kernels/gemm/pieces.h"
#include "kernels/gemm_w8/byte_rows.h"
#include "kernels/qgemm/kernels.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<GemmW8Function>, name, gemm_w8_##name)
#include "kernels/gemm_w8/kernels.inc"
#undef CPUACCEL_KERNEL
};

// k of a block: the floats of a panel and the rows of a tile stay in an L1 cache of 32 KiB.
constexpr int64_t kBlock = 128;
// With more rows than this, weights become floats once for all tiles and not once for each.
constexpr int64_t kFewRows = 16;
// Multiply-adds per thread; about 10 us of work.
constexpr int64_t kThreadWork = 1 << 20;
// Floats of rows that are packed by one thread.
constexpr int64_t kPackGrain = 16384;

class Product {
 public:
  Product(const GemmW8Call& call, const GemmW8Kernels& kernels)
      : call_(call),
        kernels_(kernels),
        K_(round_up(call.weights->K, kernels.run)),
        tiles_(divide_up(call.M, kernels.mr)),
        rows_(static_cast<float*>(scratch(
            ScratchSlot::gemm_a, static_cast<size_t>(tiles_ * kernels.mr * K_) * sizeof(float)))) {}

  void run() const {
    for_each_piece(tiles_, kPackGrain / (kernels_.mr * (K_ + 1)) + 1,
                   [&](int64_t tile) { pack(tile); });
    const int64_t panels = divide_up(call_.weights->N, kernels_.nr);
    const int64_t work = std::max<int64_t>(call_.M, 8) * kernels_.nr * (K_ + 1);
    for_each_piece(panels, kThreadWork / work + 1, [&](int64_t panel) { multiply(panel); });
  }

 private:
  int64_t rows_of(int64_t tile) const {
    return std::min(kernels_.mr, call_.M - tile * kernels_.mr);
  }
  // The number of rows that the tile's function is made for.
  int64_t width_of(int64_t tile) const {
    const int64_t m = rows_of(tile);
    return m <= 2 ? m : m <= 4 ? 4 : 8;
  }
  float* packed(int64_t tile) const { return rows_ + tile * kernels_.mr * K_; }

  void pack(int64_t tile) const {
    const int64_t width = width_of(tile), count = rows_of(tile), K = call_.weights->K;
    float* dst = packed(tile);
    std::fill_n(dst, width * K_, 0.0f);
    for (int64_t i = 0; i < count; ++i) {
      const auto* row =
          static_cast<const std::byte*>(call_.src) +
          (tile * kernels_.mr + i) * call_.src_stride * data_type_size(call_.src_type);
      if (call_.src_type == DataType::f32) {
        const auto* floats = reinterpret_cast<const float*>(row);
        for (int64_t k = 0; k < K; ++k) {
          dst[k * width + i] = floats[k];
        }
      } else {
        for (int64_t k = 0; k < K; ++k) {
          dst[k * width + i] = element_to_float(row, call_.src_type, k);
        }
      }
    }
  }

  void multiply(int64_t panel) const {
    const int64_t tile_sums = kernels_.mr * kernels_.nr;
    auto* sums = static_cast<float*>(
        scratch(ScratchSlot::gemm_dst, static_cast<size_t>(tiles_ * tile_sums) * sizeof(float)));
    const bool widens = call_.M > kFewRows;
    float* floats =
        widens
            ? static_cast<float*>(scratch(
                  ScratchSlot::gemm_b, static_cast<size_t>(kBlock * kernels_.nr) * sizeof(float)))
            : nullptr;
    const int64_t block = widens ? kBlock : K_;
    GemmW8Tile work;
    work.n = std::min(kernels_.nr, call_.weights->N - panel * kernels_.nr);
    work.floats = floats;
    std::fill_n(sums, K_ == 0 ? tiles_ * tile_sums : 0, 0.0f);
    for (int64_t k = 0; k < K_; k += block) {
      work.runs = std::min(block, K_ - k) / kernels_.run;
      work.panel = call_.weights->panel(panel) + k * kernels_.nr;
      work.add = k > 0;
      if (widens) {
        kernels_.widen(work.panel, work.runs, floats);
      }
      for (int64_t tile = 0; tile < tiles_; ++tile) {
        work.width = width_of(tile);
        work.rows = packed(tile) + k * work.width;
        work.sums = sums + tile * tile_sums;
        kernels_.tile(work);
      }
    }
    for (int64_t tile = 0; tile < tiles_; ++tile) {
      store(sums + tile * tile_sums, tile, panel * kernels_.nr, work.n);
    }
  }

  void store(const float* sums, int64_t tile, int64_t n0, int64_t count) const {
    GemmW8Results results;
    results.scales = call_.scales + n0;
    results.bias = call_.bias != nullptr ? call_.bias + n0 : nullptr;
    results.count = count;
    results.type = call_.dst_type;
    for (int64_t i = 0; i < rows_of(tile); ++i, sums += kernels_.nr) {
      const int64_t at = (tile * kernels_.mr + i) * call_.weights->N + n0;
      results.sums = sums;
      results.dst = static_cast<std::byte*>(call_.dst) + at * data_type_size(call_.dst_type);
      kernels_.finish(results);
    }
  }

  const GemmW8Call& call_;
  const GemmW8Kernels& kernels_;
  const int64_t K_, tiles_;
  float* const rows_;
};

}  // namespace

std::span<const KernelRow<GemmW8Function>> gemm_w8_kernels() { return kRows; }

GemmW8Function* gemm_w8_row(const QgemmWeights& weights) {
  const QgemmKernels& packed = weights.row();
  for (const auto& row : kRows) {
    const GemmW8Kernels& kernels = row.function();
    if (isa_usable(row.isa) && kernels.nr == packed.nr && kernels.run == packed.run) {
      return row.function;
    }
  }
  return nullptr;
}

void gemm_w8(const GemmW8Call& call, GemmW8Function* row) {
  if (call.M > 0 && call.weights->N > 0 && !gemm_w8_by_bytes(call, row())) {
    Product(call, row()).run();
  }
}

}  // namespace cpuaccel::kernels
