// Rows of int8 as the tiles of qgemm_wq read them (QgemmWqTile), with the sums of their groups.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/qgemm_wq/qgemm_wq.h"

namespace cpuaccel::kernels {

class WqPackedRows {
 public:
  // src: M x K, dense, and outlives the object. Tiles of tile_rows rows, at most 8. The memory is
  // the calling thread's ScratchSlot::gemm_a.
  WqPackedRows(const WqWeights& weights, const QgemmWqKernels& kernels, const int8_t* src,
               int64_t M, int64_t tile_rows);

  // Packs all rows, on all of torch's threads.
  void pack() const;

  int64_t tiles() const { return tiles_; }
  int64_t first_row(int64_t tile) const { return tile * tile_rows_; }
  int64_t rows(int64_t tile) const;
  // The number of rows that the tile's function is made for.
  int64_t width(int64_t tile) const;

  // `count` tiles from this one on times a panel, which tile 0 reads first. sums: 32 for each row
  // of their widths.
  QgemmWqTile by_panel(int64_t tile, int64_t count, const std::byte* panel, float* sums) const;

 private:
  int32_t* packed(int64_t tile) const { return rows_ + tile * capacity_ * groups_ * dwords_; }
  float* sums(int64_t tile) const { return sums_ + tile * capacity_ * groups_; }
  bool has_starts() const { return kWqStart > 0 && format_.group <= kWqIntegers; }
  int32_t* starts(int64_t tile) const { return starts_ + tile * capacity_ * groups_; }
  void pack_tile(int64_t tile) const;

  const WqWeights& weights_;
  const WqFormat& format_;
  const int8_t* const src_;
  const int64_t M_, groups_;
  const bool wide_;
  const int64_t dwords_;                        // of a row's group
  const int64_t tile_rows_, capacity_, tiles_;  // capacity: rows of memory of a tile
  int32_t* rows_;
  float* sums_;
  int32_t* starts_;
};

}  // namespace cpuaccel::kernels
