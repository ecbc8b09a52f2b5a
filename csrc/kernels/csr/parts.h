// Parallel loops over the rows of a CSR matrix, where long rows, such as hubs of a graph, are cut
// into parts. The cut depends on the matrix alone, so what is computed from the parts in their
// order has the same bits on any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/scratch.h"
#include "kernels/csr/csr.h"
#include "kernels/csr/cut.h"
#include "kernels/csr/pieces.h"

namespace cpuaccel::kernels {

// Entries [begin, end) of a long row.
struct RowPart {
  int64_t row;
  int64_t number;    // of the part, among those of all long rows
  int64_t long_row;  // number of the row, among the long rows
  int64_t begin, end;
};

using PartBody = std::function<void(const RowPart& part)>;

class RowsInParts {
 public:
  // Rows of more than `work` work, where one entry counts as `per_entry`, are long. nullopt if crow
  // does not ascend from 0 to nnz, all of which is read.
  static std::optional<RowsInParts> of(const Csr& csr, int64_t per_entry, int64_t work);

  // In the order of the rows, and of the entries.
  const std::vector<RowPart>& parts() const { return parts_; }
  const std::vector<CutRow>& long_rows() const { return cut_.long_rows; }

  // Calls `rows` on ranges that cover all other rows, and `part` on each part, on all threads.
  void run(const RowsBody& rows, const PartBody& part) const;
  // Calls `part` on each part, on all threads.
  void run_parts(const PartBody& part) const;

 private:
  RowsInParts(const Csr& csr, CsrCut cut);

  Csr csr_;
  CsrCut cut_;
  std::vector<RowPart> parts_;
};

// The entries of a part as the only row of a matrix, for kernels that compute whole rows.
class PartAsRow {
 public:
  explicit PartAsRow(const RowPart& part)
      : wide_{part.begin, part.end},
        narrow_{static_cast<int32_t>(part.begin), static_cast<int32_t>(part.end)} {}

  const void* crow(bool wide) const {
    return wide ? static_cast<const void*>(wide_.data()) : narrow_.data();
  }
  Csr of(Csr csr) const {
    csr.M = 1;
    csr.crow = crow(csr.wide);
    return csr;
  }

 private:
  std::array<int64_t, 2> wide_;
  std::array<int32_t, 2> narrow_;
};

// The row `row` of a dense matrix with K numbers of this type a row. Null stays null.
inline const void* row_at(const void* matrix, int64_t row, int64_t K, DataType type) {
  return matrix == nullptr ? nullptr
                           : static_cast<const std::byte*>(matrix) + row * K * data_type_size(type);
}
inline void* row_at(void* matrix, int64_t row, int64_t K, DataType type) {
  return const_cast<void*>(row_at(static_cast<const void*>(matrix), row, K, type));
}

// K sums for each part, f32 or f64.
class PartSums {
 public:
  PartSums(const RowsInParts& rows, int64_t K, DataType type);

  void* of(const RowPart& part) const { return row_at(sums_.get(), part.number, K_, type_); }
  // Row m of dst, for each long row m: the sum of its parts, in their order.
  void add_up(void* dst) const;

 private:
  const RowsInParts& rows_;
  int64_t K_;
  DataType type_;
  AlignedBlock sums_;
};

}  // namespace cpuaccel::kernels
