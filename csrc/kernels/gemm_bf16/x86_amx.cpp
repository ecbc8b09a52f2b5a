#include "kernels/amx_tiles.h"
#include "kernels/gemm/avx512.h"
#include "kernels/gemm/prefetch.h"
#include "kernels/gemm/start.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_bf16/pairs_avx512bf16.h"

namespace cpuaccel::kernels {
namespace {

// An AMX tile has 16 rows of 16 pairs. A row of AVX512-BF16's panels is 32 columns of pairs, which
// are two right operands side by side. Tiles 0 to 3 are sums, 4 and 5 rows of A, 6 and 7 columns of
// B:
//
//        6 7
//     4  0 1
//     5  2 3
constexpr int64_t kPairsAtOnce = 16;
constexpr int64_t kColumns = 32;
constexpr int64_t kRows = 32;

// Tile shapes for 1 to 32 rows. Up to 16 rows do not use tiles 2, 3 and 5.
struct Shapes {
  TileConfig of_rows[kRows];
  constexpr Shapes() : of_rows{} {
    for (int rows = 1; rows <= kRows; ++rows) {
      const bool both = rows > kTileRows;
      for (const int tile : {0, 1, 4}) {
        of_rows[rows - 1].rows[tile] = static_cast<uint8_t>(both ? kTileRows : rows);
      }
      for (const int tile : {2, 3, 5}) {
        of_rows[rows - 1].rows[tile] = static_cast<uint8_t>(both ? rows - kTileRows : kTileRows);
      }
    }
  }
};
constexpr Shapes kShapes;

// A buffer for 32 x 32 sums that cannot go directly to C.
struct alignas(64) Sums {
  float of[kRows * kColumns];
};

// Calls apply(tile, its first row, its first column) for all sums that are used.
template <bool kLower, bool kRight, typename Apply>
CPUACCEL_INLINE void for_each_sum(const Apply& apply) {
  apply(Tile<0>{}, 0, 0);
  if constexpr (kRight) {
    apply(Tile<1>{}, 0, 16);
  }
  if constexpr (kLower) {
    apply(Tile<2>{}, kTileRows, 0);
  }
  if constexpr (kLower && kRight) {
    apply(Tile<3>{}, kTileRows, 16);
  }
}

template <bool kLower, bool kRight>
CPUACCEL_INLINE void store_sums(float* c, int64_t stride) {
  for_each_sum<kLower, kRight>([&](auto tile, int64_t row, int64_t column) {
    tile.store(c + row * stride + column, stride * int64_t{sizeof(float)});
  });
}

// Writes C from the sums, as TileCall says.
void scale_sums(const TileCall& call, const Sums& sums, int64_t row, int64_t rows) {
  using V = Avx512Floats;
  const auto alpha = V::set1(call.alpha);
  const GemmStart from = with_zeros(call.from);
  float* c = call.c + row * call.c_stride;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < call.n; j += V::kLanes) {
      const auto sum = V::load(sums.of + i * kColumns + j);
      const auto mask = first_lanes(call.n - j);
      const auto start = start_of<V>(from, row + i, j, mask);
      V::store(c + i * call.c_stride + j, V::fma(alpha, sum, start), mask);
    }
  }
}

template <bool kLower, bool kRight>
void multiply(const TileCall& call, int64_t row, int64_t rows, PrefetchWalk& prefetch) {
  const float* a = call.a + row * call.a_stride;
  const auto* panel = static_cast<const float*>(call.panel);
  float* c = call.c + row * call.c_stride;
  const GemmStart& from = call.from;
  const int64_t a_bytes = call.a_stride * int64_t{sizeof(float)};
  constexpr int64_t kPanelBytes = kColumns * int64_t{sizeof(float)};
  const bool is_one_start = from.data == nullptr || from.bias == nullptr;
  const bool direct = call.alpha == 1.0f && call.n % 16 == 0 && is_one_start;

  if (direct && (from.data != nullptr || from.bias != nullptr)) {
    // A bias is loaded as a matrix whose rows are all the same.
    const int64_t stride = from.data != nullptr ? from.stride : 0;
    const float* start = from.data != nullptr ? from.data + row * stride : from.bias;
    for_each_sum<kLower, kRight>([&](auto tile, int64_t at_row, int64_t at_column) {
      tile.load(start + at_row * stride + at_column, stride * int64_t{sizeof(float)});
    });
  } else {
    for_each_sum<kLower, kRight>([](auto tile, int64_t, int64_t) { tile.zero(); });
  }
  for (int64_t k = 0; k < call.k; k += kPairsAtOnce) {
    prefetch();
    _tile_loadd(6, panel + k * kColumns, kPanelBytes);
    _tile_loadd(4, a + k, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kRight) {
      _tile_loadd(7, panel + k * kColumns + 16, kPanelBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kLower) {
      _tile_loadd(5, a + kTileRows * call.a_stride + k, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kRight) {
        _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
  if (direct) {
    store_sums<kLower, kRight>(c, call.c_stride);
  } else {
    Sums sums;
    store_sums<kLower, kRight>(sums.of, kColumns);
    scale_sums(call, sums, row, rows);
  }
}

void tiles(const TileCall& call) {
  // Earlier stores must be in memory when tiles load: GCC's intrinsics do not declare that they
  // read.
  asm volatile("" : : : "memory");
  const int64_t count = (call.m + kRows - 1) / kRows;
  PrefetchWalk prefetch(call.next, count * ((call.k + kPairsAtOnce - 1) / kPairsAtOnce));
  const bool right = call.n > 16;
  for (int64_t row = 0; row < call.m; row += kRows) {
    const int64_t rows = call.m - row < kRows ? call.m - row : kRows;
    if (!call.again || (call.m > kRows && call.m % kRows != 0)) {
      use_tiles(kShapes.of_rows[rows - 1]);
    }
    const auto function = rows > kTileRows
                              ? (right ? multiply<true, true> : multiply<true, false>)
                              : (right ? multiply<false, true> : multiply<false, false>);
    function(call, row, rows, prefetch);
  }
}

void release() { _tile_release(); }

// All other functions are AVX512-BF16's.
const GemmKernels& without_tiles() { return gemm_bf16_x86_avx512bf16().pairs(); }
void dot(const DotCall& call) { without_tiles().dot(call); }
void load(const LoadCall& call) { without_tiles().load(call); }
void panels(const LoadCall& call, int64_t nr) { without_tiles().panels(call, nr); }
void store(const float* src, int64_t count, void* dst, DataType type) {
  without_tiles().store(src, count, dst, type);
}

const GemmKernels& pair_kernels() {
  using V = Avx512Floats;
  static constexpr GemmKernels kernels{.mr = kRows,
                                       .nr = kColumns,
                                       .dot_rows = V::DotTiles::kRows,
                                       .dot_most = V::DotTiles::kMost,
                                       .tile = tiles,
                                       .dot = dot,
                                       .rows = nullptr,
                                       .load = load,
                                       .panels = panels,
                                       .store = store,
                                       .pixels = nullptr,
                                       .release = release};
  return kernels;
}

}  // namespace

const GemmBf16Kernels& gemm_bf16_x86_amx() {
  static constexpr GemmBf16Kernels kernels{.pairs = pair_kernels,
                                           .together = kPairsAtOnce,
                                           .interleaved = 1,
                                           .rows = pair_rows<1>,
                                           .tile_rows = pair_rows<kPairsAtOnce>,
                                           .panels = pair_panels<kPairsAtOnce>};
  return kernels;
}

}  // namespace cpuaccel::kernels
