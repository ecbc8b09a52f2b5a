// Sparse matrix in CSR format, for the graph kernel families.
#pragma once

#include <cstdint>
#include <limits>

#include "base/data_type.h"

namespace cpuaccel::kernels {

// Row m of the M x N matrix has the entries [crow[m], crow[m+1]); entry e is in column col[e]. The
// columns of a row are in any order and may repeat. M and N fit the index type.
struct Csr {
  int64_t M = 0, N = 0, nnz = 0;
  const void* crow = nullptr;  // M + 1
  const void* col = nullptr;   // nnz
  bool wide = true;            // indices are int64, otherwise int32

  template <typename Index>
  const Index* crow_as() const {
    return static_cast<const Index*>(crow);
  }
  template <typename Index>
  const Index* col_as() const {
    return static_cast<const Index*>(col);
  }
  int64_t row_begin(int64_t m) const {
    return wide ? crow_as<int64_t>()[m] : crow_as<int32_t>()[m];
  }
};

// Why a matrix is invalid: crow does not ascend from 0 to nnz, or a column is outside of [0, N).
enum class CsrFault : uint8_t { none, crow, col };

// Whether an int32 can hold this number, which is not negative.
constexpr bool fits_int32(int64_t value) { return value <= std::numeric_limits<int32_t>::max(); }

}  // namespace cpuaccel::kernels
