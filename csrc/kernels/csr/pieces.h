// Work on the rows of a sparse matrix, shared out by entries.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/csr/csr.h"

namespace cpuaccel::kernels {

using RowsBody = std::function<void(int64_t row, int64_t rows)>;

// Calls body on ranges of rows that cover all of them, on all of torch's threads: some `work` each,
// where an entry is `per_entry` of it. No row is divided. False, and nothing is done, if crow, all
// of which is read, does not ascend from 0 to nnz.
bool over_rows(const Csr& csr, int64_t per_entry, int64_t work, const RowsBody& body);

}  // namespace cpuaccel::kernels
