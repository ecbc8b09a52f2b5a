#include "kernels/spmm/spmm.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/csr/cut.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<SpmmFunction>, name, spmm_##name)
#include "kernels/spmm/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kWork = 1 << 18;   // entries times columns of a piece: about 50 us
constexpr int64_t kGrain = 1 << 15;  // entries times columns

int64_t entries_of_a_piece(int64_t K) { return std::clamp<int64_t>(kWork / K, 512, 8192); }
static_assert(2 * 8192 < kSpmmMostEntries);

// Partial results of long rows, until they are added up.
struct Partials {
  Partials(const SpmmCall& c, int64_t parts)
      : call(c), size(c.type == DataType::f64 ? 8 : 4), numbers(block(parts * c.K * size)) {
    if (c.arg != nullptr) {
      args = block(parts * c.K * 8);
    }
  }
  static AlignedBlock block(int64_t bytes) { return aligned_block(static_cast<size_t>(bytes)); }

  template <typename Number>
  Number* numbers_of(int64_t part) const {
    return reinterpret_cast<Number*>(numbers.get()) + part * call.K;
  }
  int64_t* args_of(int64_t part) const {
    return args ? reinterpret_cast<int64_t*>(args.get()) + part * call.K : nullptr;
  }
  SpmmWork work(const CutPart& part) const {
    return {.begin = part.begin,
            .end = part.end,
            .partial = numbers.get() + part.number * call.K * size,
            .partial_arg = args_of(part.number)};
  }

  const SpmmCall& call;
  int64_t size;
  AlignedBlock numbers, args;
};

// Adds parts [first, first + count) up into the first of them.
template <typename Number>
void add_up(const Partials& partials, int64_t first, int64_t count) {
  const SpmmCall& call = partials.call;
  const bool sums = call.reduce == Reduce::sum || call.reduce == Reduce::mean;
  auto* to = partials.numbers_of<Number>(first);
  int64_t* arg = partials.args_of(first);
  for (int64_t part = first + 1; part < first + count; ++part) {
    const auto* from = partials.numbers_of<Number>(part);
    for (int64_t k = 0; k < call.K; ++k) {
      if (sums) {
        to[k] += from[k];
      } else if (from[k] > to[k] || __builtin_isnan(from[k])) {
        to[k] = from[k];
        if (arg != nullptr) {
          arg[k] = partials.args_of(part)[k];
        }
      }
    }
  }
}

template <typename Number>
void finish_row(const Partials& partials, const CutRow& row) {
  add_up<Number>(partials, row.first_part, row.parts);
  const SpmmCall& call = partials.call;
  const auto* from = partials.numbers_of<Number>(row.first_part);
  const Number divisor = call.reduce == Reduce::mean   ? static_cast<Number>(row.entries)
                         : call.reduce == Reduce::amin ? Number{-1}
                                                       : Number{1};
  for (int64_t k = 0; k < call.K; ++k) {
    const int64_t at = row.row * call.K + k;
    const Number result = from[k] / divisor;
    if (call.type == DataType::bf16) {
      static_cast<uint16_t*>(call.dst)[at] = float_to_bf16(static_cast<float>(result));
    } else if (call.type == DataType::f16) {
      static_cast<uint16_t*>(call.dst)[at] = float_to_f16(static_cast<float>(result));
    } else {
      static_cast<Number*>(call.dst)[at] = result;
    }
  }
  if (const int64_t* arg = partials.args_of(row.first_part); arg != nullptr) {
    for (int64_t k = 0; k < call.K; ++k) {
      const int64_t at = row.row * call.K + k;
      if (call.csr.wide) {
        static_cast<int64_t*>(call.arg)[at] = arg[k];
      } else {
        static_cast<int32_t*>(call.arg)[at] = static_cast<int32_t>(arg[k]);
      }
    }
  }
}

}  // namespace

std::span<const KernelRow<SpmmFunction>> spmm_kernels() { return kRows; }

CsrFault spmm(const SpmmCall& call, SpmmFunction* function) {
  if (call.csr.M == 0 || call.K == 0) {
    return CsrFault::none;
  }
  const auto cut = cut_csr(call.csr, entries_of_a_piece(call.K));
  if (!cut) {
    return CsrFault::crow;
  }
  const Partials partials(call, cut->parts);
  std::atomic<bool> good{true};
  const int64_t grain = std::max<int64_t>(1, kGrain / (cut->size * call.K));
  parallel_for(0, cut->pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end && good.load(std::memory_order_relaxed); ++number) {
      const CutPiece piece = piece_of(call.csr, *cut, number);
      bool fine = piece.rows == 0 || function(call, {.row = piece.row, .rows = piece.rows});
      for (const CutPart& part : piece.parts) {
        fine = fine && (part.number < 0 || function(call, partials.work(part)));
      }
      if (!fine) {
        good.store(false, std::memory_order_relaxed);
      }
    }
  });
  if (!good) {
    return CsrFault::col;
  }
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
  return CsrFault::none;
}

CsrFault spmm(const SpmmCall& call) { return spmm(call, first_usable(spmm_kernels()).function); }

}  // namespace cpuaccel::kernels
