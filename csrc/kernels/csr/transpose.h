// Transposes a CSR matrix (CSC format), by a stable counting sort of its entries by column. The
// result does not depend on the number of threads.
//
//   the entries of column n are perm[i], i in [ccol[n], ccol[n+1]), in the rows row[i]; perm
//   ascends within a column
//
// Read as a Csr of N rows and M columns, these arrays are the transposed matrix.
// Bound: the columns are read twice, and 2 indices an entry are written in random order.
#pragma once

#include "base/api.h"
#include "kernels/csr/csr.h"

namespace cpuaccel::kernels {

struct CsrColumns {
  void* ccol = nullptr;  // N + 1
  void* row = nullptr;   // nnz
  void* perm = nullptr;  // nnz
  bool wide = true;      // all three are int64, otherwise int32: then M, N and nnz must fit
};

// Reads and checks every index. After a fault the output is undefined.
CPUACCEL_API CsrFault csr_transpose(const Csr& csr, const CsrColumns& dst);

// dst[i] = values[perm[i]], divided by the number of entries of row row[i] if `mean`. values null:
// ones. dst is float for 16-bit values, otherwise of the values' type. csr and columns must come
// from a csr_transpose() that succeeded.
CPUACCEL_API void csr_columns_values(const Csr& csr, const CsrColumns& columns, const void* values,
                                     DataType type, bool mean, void* dst);

}  // namespace cpuaccel::kernels
