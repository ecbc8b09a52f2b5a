#include "kernels/csr/cut.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kBlock = 1 << 16;  // rows that are checked together
constexpr int64_t kGrainBlocks = 4;  // blocks per thread at least: some 40 us

// Finds the rows of [begin, end) that are longer than `size`; false if crow descends or is
// negative.
//
// One loop collects signs, so that it vectorizes. The numbers may be anything: the sign of a
// difference is right if neither of its numbers is negative.
template <typename Index>
bool look_at_rows(const Index* crow, int64_t begin, int64_t end, int64_t size,
                  std::vector<CutRow>& long_rows) {
  using Bits = std::make_unsigned_t<Index>;
  const auto most = static_cast<Bits>(std::min<int64_t>(size, std::numeric_limits<Index>::max()));
  Bits bad = 0, longer = 0;
  for (int64_t m = begin; m < end; ++m) {
    const auto first = static_cast<Bits>(crow[m]), last = static_cast<Bits>(crow[m + 1]);
    bad |= first | last | (last - first);
    longer |= most - (last - first);
  }
  if (static_cast<Index>(bad) < 0) {
    return false;
  }
  for (int64_t m = begin; m < (static_cast<Index>(longer) < 0 ? end : begin); ++m) {
    if (crow[m + 1] - crow[m] > size) {
      long_rows.push_back({m, crow[m + 1] - crow[m], 0, 0});
    }
  }
  return true;
}

int64_t first_piece(const Csr& csr, const CsrCut& cut, const CutRow& row) {
  return (csr.row_begin(row.row) + row.row) / cut.size;
}

// The first row that begins at position `place` or later.
template <typename Index>
int64_t row_at(const Csr& csr, int64_t place) {
  const auto* crow = csr.crow_as<Index>();
  int64_t low = 0, high = csr.M;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (crow[middle] + middle < place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

std::optional<CsrCut> cut_csr(const Csr& csr, int64_t size) {
  if (csr.row_begin(0) != 0 || csr.row_begin(csr.M) != csr.nnz) {
    return std::nullopt;
  }
  const int64_t blocks = divide_up(csr.M, kBlock);
  std::vector<std::vector<CutRow>> found(static_cast<size_t>(blocks));
  std::atomic<bool> good{true};
  parallel_for(0, blocks, kGrainBlocks, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlock, last = std::min(csr.M, first + kBlock);
      auto& rows = found[static_cast<size_t>(block)];
      if (!(csr.wide ? look_at_rows(csr.crow_as<int64_t>(), first, last, size, rows)
                     : look_at_rows(csr.crow_as<int32_t>(), first, last, size, rows))) {
        good.store(false, std::memory_order_relaxed);
      }
    }
  });
  if (!good) {
    return std::nullopt;
  }
  CsrCut cut;
  cut.size = size;
  cut.pieces = divide_up(csr.nnz + csr.M, size);
  for (const auto& rows : found) {
    for (CutRow row : rows) {
      const int64_t last = (csr.row_begin(row.row) + row.entries - 1 + row.row) / size;
      row.first_part = cut.parts;
      row.parts = last - first_piece(csr, cut, row) + 1;
      cut.parts += row.parts;
      cut.long_rows.push_back(row);
    }
  }
  return cut;
}

bool csr_ascends(const Csr& csr) {
  return cut_csr(csr, std::numeric_limits<int64_t>::max()).has_value();
}

CutPiece piece_of(const Csr& csr, const CsrCut& cut, int64_t number) {
  const int64_t start = number * cut.size, end = start + cut.size;
  const auto at = [&](int64_t place) {
    return csr.wide ? row_at<int64_t>(csr, place) : row_at<int32_t>(csr, place);
  };
  CutPiece piece;
  piece.row = at(start);
  piece.rows = at(end) - piece.row;
  if (cut.long_rows.empty()) {
    return piece;
  }
  // Of the rows that begin here, only the last can be long.
  const auto part = [&](int64_t m) {
    const auto found = std::ranges::lower_bound(cut.long_rows, m, {}, &CutRow::row);
    if (found == cut.long_rows.end() || found->row != m) {
      return CutPart{};
    }
    const int64_t first = csr.row_begin(m);
    CutPart result;
    result.begin = std::max(first, start - m);
    result.end = std::min(first + found->entries, end - m);
    if (result.begin < result.end) {
      result.number = found->first_part + number - first_piece(csr, cut, *found);
    }
    return result;
  };
  if (piece.row > 0) {
    piece.parts[0] = part(piece.row - 1);
  }
  if (piece.rows > 0) {
    piece.parts[1] = part(piece.row + piece.rows - 1);
    const bool begins =
        std::ranges::binary_search(cut.long_rows, piece.row + piece.rows - 1, {}, &CutRow::row);
    piece.rows -= begins ? 1 : 0;
  }
  return piece;
}

}  // namespace cpuaccel::kernels
