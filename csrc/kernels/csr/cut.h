// A CSR matrix cut into pieces of equal work. The cut depends on the matrix alone, not on the
// number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/api.h"
#include "kernels/csr/csr.h"

namespace cpuaccel::kernels {

// Positions count each row's entries and then its end: entry e of row m is at position e + m. Piece
// p covers positions [p * size, (p + 1) * size). Rows of up to `size` entries are not divided but
// belong to the piece in which they begin. Longer rows are cut at the borders of pieces.
struct CutRow {
  int64_t row, entries;
  int64_t first_part, parts;  // numbers of its parts, in the order of its entries
};

struct CsrCut {
  int64_t size = 0, pieces = 0;
  int64_t parts = 0;              // of all long rows
  std::vector<CutRow> long_rows;  // ascending
};

struct CutPart {
  int64_t number = -1;  // -1: there is no part
  int64_t begin = 0, end = 0;
};

struct CutPiece {
  int64_t row = 0, rows = 0;     // rows that are not divided
  std::array<CutPart, 2> parts;  // of a long row that began earlier, and of one that begins here
};

// Whether crow ascends from 0 to nnz. Reads all of it.
CPUACCEL_API bool csr_ascends(const Csr& csr);

// Reads all of crow. Returns nullopt if it does not ascend from 0 to nnz.
std::optional<CsrCut> cut_csr(const Csr& csr, int64_t size);

CutPiece piece_of(const Csr& csr, const CsrCut& cut, int64_t number);

}  // namespace cpuaccel::kernels
