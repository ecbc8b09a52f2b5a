#include "kernels/qgemm/qgemm.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/parallel.h"
#include "kernels/gemm/pieces.h"
#include "kernels/qgemm/cut.h"
#include "kernels/qgemm/kernels.h"
#include "kernels/qgemm/rows.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<QgemmFunction>, name, qgemm_##name)
#include "kernels/qgemm/kernels.inc"
#undef CPUACCEL_KERNEL
};

// The most tiles of rows whose products prefetch the next panel.
constexpr int64_t kMostTilesAhead = 8;

// A piece of the results: tiles of rows times panels.
struct Piece {
  int64_t first_tile, last_tile;
  int64_t first_panel, last_panel;
};

class Product {
 public:
  Product(const QgemmCall& call, const QgemmKernels& kernels, const QgemmCut& cut)
      : call_(call),
        kernels_(kernels),
        cut_(cut),
        runs_(qgemm_runs(kernels, call.weights->K)),
        panels_(call.weights->panel(0)),
        panel_bytes_(kernels.nr * kernels.run * runs_) {}

  void run() const { cut_.column_chunks == 1 ? run_blocks() : run_grid(); }

 private:
  int64_t first_row(int64_t tile) const { return std::min(call_.M, tile * kernels_.mr); }
  int64_t first_tile(int64_t block) const {
    return QgemmCut::border(cut_.row_tiles, cut_.row_blocks, block);
  }
  int64_t first_panel(int64_t chunk) const {
    return QgemmCut::border(cut_.panels, cut_.column_chunks, chunk);
  }

  // One thread computes each block of rows.
  void run_blocks() const {
    for_each_piece(cut_.row_blocks, cut_.grain, [&](int64_t block) {
      const Piece piece{first_tile(block), first_tile(block + 1), 0, cut_.panels};
      const int64_t begin = first_row(piece.first_tile), end = first_row(piece.last_tile);
      const QgemmRows rows(call_, kernels_, begin, end - begin);
      rows.pack(begin, end - begin);
      multiply(rows, piece);
    });
  }

  // There are few rows, which all threads share.
  void run_grid() const {
    const QgemmRows rows(call_, kernels_, 0, call_.M);
    const int64_t grain = kQgemmL1Bytes / (kernels_.mr * (call_.weights->K + 1)) + 1;
    for_each_piece(cut_.row_tiles, grain, [&](int64_t tile) {
      rows.pack(first_row(tile), first_row(tile + 1) - first_row(tile));
    });
    for_each_piece(cut_.row_blocks * cut_.column_chunks, cut_.grain, [&](int64_t piece) {
      const int64_t block = piece / cut_.column_chunks, chunk = piece % cut_.column_chunks;
      multiply(rows, {first_tile(block), first_tile(block + 1), first_panel(chunk),
                      first_panel(chunk + 1)});
    });
  }

  // Computes a piece block by block of K. With several blocks, it takes as many panels at a time as
  // have room for their sums.
  void multiply(const QgemmRows& rows, const Piece& piece) const {
    const int64_t tiles = piece.last_tile - piece.first_tile;
    const int64_t tile_sums = kernels_.mr * kernels_.nr;
    alignas(64) int32_t one[kQgemmLargestTile];
    int32_t* sums = one;
    int64_t at_once = piece.last_panel - piece.first_panel, kept = 0;
    if (runs_ > cut_.runs) {
      const int64_t bytes = tiles * tile_sums * static_cast<int64_t>(sizeof(int32_t));
      at_once = std::clamp<int64_t>(kQgemmSumBytes / bytes, 1, at_once);
      sums = static_cast<int32_t*>(
          scratch(ScratchSlot::gemm_dst, static_cast<size_t>(at_once * bytes)));
      kept = tile_sums;
    }
    QgemmTile work;
    QgemmStore store{call_, conv_};
    for (int64_t first = piece.first_panel; first < piece.last_panel; first += at_once) {
      const int64_t last = std::min(piece.last_panel, first + at_once);
      int64_t run = 0;
      do {
        work.sums = sums;
        for (int64_t panel = first; panel < last; ++panel) {
          multiply_panel(rows, piece, panel, run, kept, work, store);
        }
        run += cut_.runs;
      } while (run < runs_);
      finish(piece, first, last);
    }
  }

  // Memory that is read next, of which each tile prefetches a share.
  struct Ahead {
    const int8_t* data = nullptr;
    int64_t bytes = 0, share = 0;
  };

  // The same runs of the panel behind `panel`, if `last` is farther. With few tiles, weights are
  // used only a few times, and come from L3 or memory. One tile reads them from front to back.
  Ahead ahead_of(int64_t panel, int64_t last, const QgemmTile& work, int64_t tiles) const {
    const int64_t run_bytes = kernels_.nr * kernels_.run, bytes = work.runs * run_bytes;
    if (tiles == 1 && work.runs == runs_ && bytes_ahead_ > 0) {
      return {work.panel + bytes_ahead_, bytes, bytes};
    }
    if (tiles > kMostTilesAhead || panel + 1 >= last) {
      return {};
    }
    return {panels_ + (panel + 1) * panel_bytes_ + work.first_run * run_bytes, bytes,
            divide_up(bytes, tiles)};
  }

  // Multiplies the tiles of a piece by a panel, from run `run` on. Stores the results with the last
  // block of runs. The sums of a tile are `kept` behind those of the tile before.
  void multiply_panel(const QgemmRows& rows, const Piece& piece, int64_t panel, int64_t run,
                      int64_t kept, QgemmTile& work, QgemmStore& store) const {
    const bool last = run + cut_.runs >= runs_;
    store.n0 = panel * kernels_.nr;
    store.n = std::min(kernels_.nr, call_.weights->N - store.n0);
    work.panel = panels_ + panel * panel_bytes_;
    work.first_run = run;
    work.runs = last ? runs_ - run : cut_.runs;
    work.n = store.n;
    work.add = run > 0;
    const int64_t tiles = piece.last_tile - piece.first_tile;
    const Ahead ahead = ahead_of(panel, piece.last_panel, work, tiles);
    int64_t m = first_row(piece.first_tile);
    for (int64_t tile = piece.first_tile; tile < piece.last_tile; ++tile) {
      const int64_t number = tile - piece.first_tile;
      work.next = ahead.data + number * ahead.share;
      work.next_bytes = std::clamp<int64_t>(ahead.bytes - number * ahead.share, 0, ahead.share);
      work.rows = rows.tile(m);
      work.m = std::min(kernels_.mr, call_.M - m);
      kernels_.tile(work);
      if (last) {
        store.offsets = rows.offsets + (m - rows.first);
        store.scales = rows.scales != nullptr ? rows.scales + (m - rows.first) : nullptr;
        store.sums = work.sums;
        store.m0 = m;
        store.m = work.m;
        kernels_.store(store);
      }
      m += work.m;
      work.sums += kept;
    }
  }

  // Runs the epilogue on panels [first, last) of a piece.
  void finish(const Piece& piece, int64_t first, int64_t last) const {
    if (call_.epilogue.run == nullptr) {
      return;
    }
    auto* dst = static_cast<uint8_t*>(call_.dst.data);
    const int64_t N = call_.weights->N;
    const int64_t begin = first_row(piece.first_tile), end = first_row(piece.last_tile);
    if (first == 0 && last == cut_.panels) {
      call_.epilogue.run(call_.epilogue.context, dst, begin * N, (end - begin) * N);
      return;
    }
    const int64_t n = first * kernels_.nr, count = std::min(N, last * kernels_.nr) - n;
    for (int64_t m = begin; m < end; ++m) {
      call_.epilogue.run(call_.epilogue.context, dst, m * N + n, count);
    }
  }

  static ConvDst conv_dst(const QgemmDst& dst) {
    ConvDst conv;
    conv.data = dst.data;
    conv.type = dst.type == DataType::u8 || dst.type == DataType::s8 ? dst.type : DataType::f32;
    conv.scales = dst.scales;
    conv.bias = dst.bias;
    conv.activation = dst.activation;
    conv.inverse_scale = dst.inverse_scale;
    conv.zero_point = dst.zero_point;
    conv.min = dst.min;
    conv.max = dst.max;
    return conv;
  }

  const QgemmCall& call_;
  const QgemmKernels& kernels_;
  const QgemmCut& cut_;
  const int64_t runs_;
  const int8_t* const panels_;
  const int64_t panel_bytes_;
  const int64_t bytes_ahead_ = bytes_ahead_of_panels();
  const ConvDst conv_ = conv_dst(call_.dst);
};

}  // namespace

std::span<const KernelRow<QgemmFunction>> qgemm_kernels() { return kRows; }

const char* qgemm_unsupported_reason(const QgemmCall& call) {
  const bool fits = call.weights->magnitude <= std::numeric_limits<int32_t>::max();
  return fits || call.dst.type == DataType::s32 ? nullptr
                                                : "sums with these weights could overflow int32";
}

const char* qgemm(const QgemmCall& call) {
  if (const char* why = qgemm_unsupported_reason(call)) {
    return why;
  }
  const QgemmWeights& weights = *call.weights;
  if (call.M > 0 && weights.N > 0) {
    const QgemmKernels& kernels = weights.row();
    const QgemmCut cut(kernels, call.M, weights.N, weights.K, parallel_threads());
    Product(call, kernels, cut).run();
  }
  return nullptr;
}

}  // namespace cpuaccel::kernels
