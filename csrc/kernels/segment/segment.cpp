#include "kernels/segment/segment.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/csr/cut.h"
#include "kernels/segment/few_columns.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<SegmentFunction>, name, segment_##name)
#include "kernels/segment/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kWork = 1 << 18;   // entries times columns of a piece
constexpr int64_t kGrain = 1 << 15;  // entries times columns

int64_t entries_of_a_piece(int64_t K) { return std::clamp<int64_t>(kWork / K, 512, 8192); }

// Partial results of long segments, until they are combined.
struct Partials {
  Partials(const SegmentCall& c, int64_t parts)
      : call(c),
        row_bytes(c.K * data_type_size(c.type)),
        block(aligned_block(static_cast<size_t>(parts * row_bytes))) {}
  std::byte* of(int64_t part) const { return block.get() + part * row_bytes; }
  SegmentWork work(const CutPart& part) const {
    return {.begin = part.begin, .end = part.end, .partial = of(part.number)};
  }

  const SegmentCall& call;
  int64_t row_bytes;
  AlignedBlock block;
};

template <typename Number>
void finish_row(const Partials& partials, const CutRow& row) {
  const SegmentCall& call = partials.call;
  auto* dst = static_cast<Number*>(call.dst) + row.row * call.K;
  std::fill_n(dst, call.K, static_cast<Number>(call.start));
  for (int64_t part = row.first_part; part < row.first_part + row.parts; ++part) {
    const auto* from = reinterpret_cast<const Number*>(partials.of(part));
    for (int64_t k = 0; k < call.K; ++k) {
      if (call.reduce == Reduce::sum || call.reduce == Reduce::mean) {
        dst[k] += from[k];
      } else if (__builtin_isnan(from[k]) ||
                 (call.reduce == Reduce::amax ? from[k] > dst[k] : from[k] < dst[k])) {
        dst[k] = from[k];
      }
    }
  }
  if (call.reduce == Reduce::mean) {
    for (int64_t k = 0; k < call.K; ++k) {
      dst[k] /= static_cast<Number>(row.entries);
    }
  }
}

}  // namespace

std::span<const KernelRow<SegmentFunction>> segment_kernels() { return kRows; }

bool segment(const SegmentCall& call, SegmentFunction* function) {
  const Csr csr{.M = call.N, .N = 1, .nnz = call.E, .crow = call.offsets};
  const auto cut = cut_csr(csr, entries_of_a_piece(std::max<int64_t>(call.K, 1)));
  if (!cut) {
    return false;
  }
  if (call.N == 0 || call.K == 0) {
    return true;
  }
  const Partials partials(call, cut->parts);
  const int64_t grain = std::max<int64_t>(1, kGrain / (cut->size * call.K));
  parallel_for(0, cut->pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const CutPiece piece = piece_of(csr, *cut, number);
      if (piece.rows > 0) {
        function(call, {.row = piece.row, .rows = piece.rows});
      }
      for (const CutPart& part : piece.parts) {
        if (part.number >= 0) {
          function(call, partials.work(part));
        }
      }
    }
  });
  parallel_for(0, static_cast<int64_t>(cut->long_rows.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const CutRow& row = cut->long_rows[static_cast<size_t>(i)];
      if (call.type == DataType::f64) {
        finish_row<double>(partials, row);
      } else {
        finish_row<float>(partials, row);
      }
    }
  });
  return true;
}

bool segment(const SegmentCall& call) {
  if (call.K <= kFewSegmentColumns) {
    return segment(call, call.type == DataType::f64 ? few_segment_columns<double>
                                                    : few_segment_columns<float>);
  }
  return segment(call, first_usable(segment_kernels()).function);
}

}  // namespace cpuaccel::kernels
