// A sparse matrix cut into pieces of equal work, by itself alone: not by how many threads there
// are.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/csr/csr.h"

namespace cpuaccel::kernels {

// Rows and entries are laid out on a line, each row's entries and then its end: entry e of row m is
// at e + m. Piece p is what is in [p * size, (p + 1) * size) of it, but rows of up to `size`
// entries are not divided: they belong to the piece that they begin in. Longer ones are cut at its
// borders.
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
  int64_t number = -1;  // -1: there is none
  int64_t begin = 0, end = 0;
};

struct CutPiece {
  int64_t row = 0, rows = 0;     // whole ones
  std::array<CutPart, 2> parts;  // of a long row that began before, and of one that begins here
};

// Whether crow, all of which is read, ascends from 0 to nnz.
bool csr_ascends(const Csr& csr);

// Reads all of crow; nothing if it does not ascend from 0 to nnz.
std::optional<CsrCut> cut_csr(const Csr& csr, int64_t size);

CutPiece piece_of(const Csr& csr, const CsrCut& cut, int64_t number);

}  // namespace cpuaccel::kernels
