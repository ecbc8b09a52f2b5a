// A sparse matrix by its columns: a counting sort of its entries, stable, so that there is one
// answer on any number of threads.
//
//   the entries of column n are perm[i], i in [ccol[n], ccol[n+1]), in the rows row[i]; perm
//   ascends within a column
//
// Read as a Csr of N rows, M columns and these arrays, it is the transposed matrix.
// Bound: the columns are read twice, and 2 indices an entry are written in no order.
#pragma once

#include "kernels/csr/csr.h"

namespace cpuaccel::kernels {

struct CsrColumns {
  void* ccol = nullptr;  // N + 1
  void* row = nullptr;   // nnz
  void* perm = nullptr;  // nnz
  bool wide = true;      // all three are int64, else int32: then M, N and nnz must fit
};

// Reads and checks every index. After a fault what was written means nothing.
CsrFault csr_transpose(const Csr& csr, const CsrColumns& dst);

// dst[i] = values[perm[i]], divided by the entries of row row[i] if `mean`. values null: ones.
// dst is float for values of 16 bits, and of the type itself else. csr and columns must have passed
// csr_transpose.
void csr_columns_values(const Csr& csr, const CsrColumns& columns, const void* values,
                        GraphType type, bool mean, void* dst);

}  // namespace cpuaccel::kernels
