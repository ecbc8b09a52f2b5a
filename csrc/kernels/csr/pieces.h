// Parallel loops over the rows of a CSR matrix, balanced by entries.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/csr/csr.h"

namespace cpuaccel::kernels {

using RowsBody = std::function<void(int64_t row, int64_t rows)>;

// Calls body on ranges that cover all rows, on all of torch's threads. Each range is about `work`
// work, where one entry counts as `per_entry`. No row is divided. Reads all of crow. If crow does
// not ascend from 0 to nnz, returns false and calls nothing.
bool over_rows(const Csr& csr, int64_t per_entry, int64_t work, const RowsBody& body);

}  // namespace cpuaccel::kernels
