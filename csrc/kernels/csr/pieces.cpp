#include "kernels/csr/pieces.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/csr/cut.h"

namespace cpuaccel::kernels {

bool over_rows(const Csr& csr, int64_t per_entry, int64_t work, const RowsBody& body) {
  const auto cut = cut_csr(csr, std::max<int64_t>(1, work / std::max<int64_t>(1, per_entry)));
  if (!cut) {
    return false;
  }
  parallel_for(0, cut->pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const CutPiece piece = piece_of(csr, *cut, number);
      // A long row belongs to its first piece.
      const int64_t rows = piece.rows + (piece.parts[1].number >= 0 ? 1 : 0);
      if (rows > 0) {
        body(piece.row, rows);
      }
    }
  });
  return true;
}

}  // namespace cpuaccel::kernels
