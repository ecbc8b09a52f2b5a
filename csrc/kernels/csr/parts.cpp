#include "kernels/csr/parts.h"

#include <algorithm>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

template <typename Number>
void add_rows(const Number* from, int64_t rows, int64_t K, Number* to) {
  std::copy_n(from, K, to);
  for (int64_t row = 1; row < rows; ++row) {
    for (int64_t k = 0; k < K; ++k) {
      to[k] += from[row * K + k];
    }
  }
}

}  // namespace

std::optional<RowsInParts> RowsInParts::of(const Csr& csr, int64_t per_entry, int64_t work) {
  auto cut = cut_csr(csr, std::max<int64_t>(1, work / std::max<int64_t>(1, per_entry)));
  if (!cut) {
    return std::nullopt;
  }
  return RowsInParts(csr, std::move(*cut));
}

RowsInParts::RowsInParts(const Csr& csr, CsrCut cut) : csr_(csr), cut_(std::move(cut)) {
  for (size_t i = 0; i < cut_.long_rows.size(); ++i) {
    const CutRow& row = cut_.long_rows[i];
    const int64_t first = csr_.row_begin(row.row), last = first + row.entries;
    const int64_t piece = (first + row.row) / cut_.size;
    for (int64_t j = 0; j < row.parts; ++j) {
      const int64_t start = (piece + j) * cut_.size - row.row;
      parts_.push_back({row.row, row.first_part + j, static_cast<int64_t>(i),
                        std::max(first, start), std::min(last, start + cut_.size)});
    }
  }
}

void RowsInParts::run(const RowsBody& rows, const PartBody& part) const {
  parallel_for(0, cut_.pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const CutPiece piece = piece_of(csr_, cut_, number);
      for (const CutPart& each : piece.parts) {
        if (each.number >= 0) {
          part(parts_[static_cast<size_t>(each.number)]);
        }
      }
      if (piece.rows > 0) {
        rows(piece.row, piece.rows);
      }
    }
  });
}

void RowsInParts::run_parts(const PartBody& part) const {
  parallel_for(0, static_cast<int64_t>(parts_.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      part(parts_[static_cast<size_t>(i)]);
    }
  });
}

PartSums::PartSums(const RowsInParts& rows, int64_t K, DataType type)
    : rows_(rows),
      K_(K),
      type_(type),
      sums_(aligned_block(rows.parts().size() * static_cast<size_t>(K * data_type_size(type)))) {}

void PartSums::add_up(void* dst) const {
  const auto& rows = rows_.long_rows();
  parallel_for(0, static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& [row, entries, first, parts] = rows[static_cast<size_t>(i)];
      const void* from = row_at(sums_.get(), first, K_, type_);
      void* to = row_at(dst, row, K_, type_);
      type_ == DataType::f64
          ? add_rows(static_cast<const double*>(from), parts, K_, static_cast<double*>(to))
          : add_rows(static_cast<const float*>(from), parts, K_, static_cast<float*>(to));
    }
  });
}

}  // namespace cpuaccel::kernels
