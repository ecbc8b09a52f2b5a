#include "kernels/qgemm_wq/packed_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/scratch.h"
#include "kernels/gemm/pieces.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

// Bytes of rows that are packed by one thread.
constexpr int64_t kPackGrain = 65536;

int64_t width_of(int64_t rows) {
  // Arm's tiles have no three rows.
  const bool is_whole = rows <= 2 || (rows == 3 && kWqRowRun == 4);
  return is_whole ? rows : rows <= 4 ? 4 : 8;
}

// Of the bytes of a group: with k % 4 < 2, and the others.
struct HalfSums {
  int64_t first = 0, second = 0;
};

HalfSums sums_of(const int8_t* bytes, int64_t count) {
  constexpr int64_t kWord = 8, kMostWords = 128;  // of which 16 bits hold the sums
  constexpr uint64_t kSigns = 0x8080808080808080, kEven = 0x00ff00ff00ff00ff;
  HalfSums sums;
  int64_t k = 0;
  while (count - k >= kWord) {
    const int64_t words = std::min(kMostWords, (count - k) / kWord);
    uint64_t pairs = 0;  // four sums of two neighbors each, plus 256 for each word
    for (int64_t word = 0; word < words; ++word, k += kWord) {
      uint64_t of_word;
      std::memcpy(&of_word, bytes + k, kWord);
      of_word ^= kSigns;
      pairs += (of_word & kEven) + (of_word >> 8 & kEven);
    }
    const auto pair = [&](int number) {
      return static_cast<int64_t>(pairs >> 16 * number & 0xffff) - 256 * words;
    };
    sums.first += pair(0) + pair(2);
    sums.second += pair(1) + pair(3);
  }
  for (; k < count; ++k) {
    (k % 4 < 2 ? sums.first : sums.second) += bytes[k];
  }
  return sums;
}

// QgemmWqTile::starts.
int32_t start_of(const HalfSums& sums, int64_t group) {
  if (group > kWqStart) {
    return static_cast<int32_t>(-8 * (sums.first + sums.second));
  }
  const std::array halves{static_cast<int16_t>(-8 * sums.first),
                          static_cast<int16_t>(-8 * sums.second)};
  return std::bit_cast<int32_t>(halves);
}

// The group's bytes of row i of a tile.
void pack_group(const int8_t* from, int64_t group, int32_t* to, int64_t i, int64_t width) {
  const int64_t whole = group / kWqRowRun, rest = group % kWqRowRun;
  auto* bytes = reinterpret_cast<int8_t*>(to) + i * kWqRowRun;
  for (int64_t run = 0; run < whole; ++run) {
    std::memcpy(bytes + run * width * kWqRowRun, from + run * kWqRowRun, kWqRowRun);
  }
  if (rest > 0) {
    std::memcpy(bytes + whole * width * kWqRowRun, from + whole * kWqRowRun,
                static_cast<size_t>(rest));
  }
}

// The same of wide rows: two dwords of each four bytes.
void pack_wide_group(const int8_t* from, int64_t group, int32_t* to, int64_t i, int64_t width) {
  for (int64_t k = 0; k < group; k += 4, to += 2 * width) {
    int8_t four[4] = {};
    std::memcpy(four, from + k, static_cast<size_t>(std::min<int64_t>(4, group - k)));
    for (size_t half = 0; half < 2; ++half) {
      const std::array<int16_t, 2> pair{four[half], four[half + 2]};
      to[static_cast<int64_t>(half) * width + i] = std::bit_cast<int32_t>(pair);
    }
  }
}

}  // namespace

WqPackedRows::WqPackedRows(const WqWeights& weights, const QgemmWqKernels& kernels,
                           const int8_t* src, int64_t M, int64_t tile_rows)
    : weights_(weights),
      format_(weights.format()),
      src_(src),
      M_(M),
      groups_(weights.layout().groups),
      wide_(format_.bits == 8 && kernels.wide_rows),
      dwords_(round_up(format_.group, std::max(format_.run(), kWqRowRun)) / (wide_ ? 2 : 4)),
      tile_rows_(tile_rows),
      capacity_(width_of(tile_rows)),
      tiles_(divide_up(M, tile_rows)) {
  const int64_t sums = tiles_ * capacity_ * groups_;
  const auto bytes = static_cast<size_t>(sums * (dwords_ + 2) * int64_t{sizeof(int32_t)});
  rows_ = static_cast<int32_t*>(scratch(ScratchSlot::gemm_a, bytes));
  starts_ = rows_ + sums * dwords_;
  sums_ = reinterpret_cast<float*>(starts_ + sums);
}

void WqPackedRows::pack() const {
  for_each_piece(tiles_, kPackGrain / (tile_rows_ * (weights_.K() + 1)) + 1,
                 [&](int64_t tile) { pack_tile(tile); });
}

int64_t WqPackedRows::rows(int64_t tile) const {
  return std::min(tile_rows_, M_ - first_row(tile));
}

int64_t WqPackedRows::width(int64_t tile) const { return width_of(rows(tile)); }

void WqPackedRows::pack_tile(int64_t tile) const {
  const int64_t width = this->width(tile);
  std::fill_n(packed(tile), width * groups_ * dwords_, 0);
  std::fill_n(sums(tile), width * groups_, 0.0f);
  std::fill_n(starts(tile), width * groups_, 0);
  for (int64_t i = 0; i < rows(tile); ++i) {
    const int8_t* from = src_ + (first_row(tile) + i) * weights_.K();
    for (int64_t g = 0; g < groups_; ++g, from += format_.group) {
      (wide_ ? pack_wide_group : pack_group)(from, format_.group,
                                             packed(tile) + g * dwords_ * width, i, width);
      const HalfSums of_group = sums_of(from, format_.group);
      sums(tile)[g * width + i] = static_cast<float>(of_group.first + of_group.second);
      if (has_starts()) {
        starts(tile)[g * width + i] = start_of(of_group, format_.group);
      }
    }
  }
}

QgemmWqTile WqPackedRows::by_panel(int64_t tile, int64_t count, const std::byte* panel,
                                   float* sums) const {
  return {.tiles = count,
          .rows = packed(tile),
          .row_sums = this->sums(tile),
          .starts = has_starts() ? starts(tile) : nullptr,
          .width = width(tile),
          .panel = panel,
          .format = &format_,
          .layout = &weights_.layout(),
          .prefetches = tile == 0,
          .sums = sums};
}

}  // namespace cpuaccel::kernels
