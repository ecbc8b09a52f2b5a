#include "kernels/spmm/arg_grad.h"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/csr/cut.h"
#include "kernels/gemm/half.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements
constexpr int64_t kColumns = 16;     // a cache line of floats, written by one thread
constexpr int64_t kTerms = 1 << 20;  // of src's gradient that are sorted at a time: 16 MiB

// Storage type, arithmetic type and conversions of each dtype.
template <typename Float>
struct Plain {
  using Element = Float;
  using Number = Float;
  static Number widen(Element value) { return value; }
  static Element round(Number value) { return value; }
};
template <float (*kWiden)(uint16_t), uint16_t (*kRound)(float)>
struct Half {
  using Element = uint16_t;
  using Number = float;
  static Number widen(Element value) { return kWiden(value); }
  static Element round(Number value) { return kRound(value); }
};

template <typename T, typename Index>
class ArgGrad {
 public:
  explicit ArgGrad(const ArgGradCall& c) : call(c) {}

  ArgGradFault run() {
    if (call.grad_values != nullptr) {
      // Rows share no entries.
      parallel_for(0, call.csr.M, rows_grain(), [this](int64_t begin, int64_t end) {
        std::vector<Number> sums;
        for (int64_t m = begin; m < end && good(); ++m) {
          values_of_row(m, sums);
        }
      });
    }
    if (call.grad_src != nullptr && good()) {
      src_columns();
    }
    return fault.load();
  }

 private:
  using Element = typename T::Element;
  using Number = typename T::Number;
  static constexpr bool kRounds = !std::is_same_v<Element, Number>;

  bool good() const { return fault.load(std::memory_order_relaxed) == ArgGradFault::none; }
  int64_t rows_grain() const { return kGrain / std::max<int64_t>(1, call.K) + 1; }

  // The column of the entry that element `at` of row m selected; -1 for none and after a fault.
  int64_t column_of(int64_t m, int64_t at) {
    const int64_t e = arg[at];
    if (e == call.csr.nnz) {
      return -1;
    }
    if (e < crow[m] || e >= crow[m + 1]) {
      fault.store(ArgGradFault::arg, std::memory_order_relaxed);
      return -1;
    }
    const int64_t column = col[e];
    if (static_cast<uint64_t>(column) >= static_cast<uint64_t>(call.csr.N)) {
      fault.store(ArgGradFault::col, std::memory_order_relaxed);
      return -1;
    }
    return column;
  }

  void values_of_row(int64_t m, std::vector<Number>& sums) {
    const int64_t begin = crow[m], entries = crow[m + 1] - crow[m];
    sums.assign(static_cast<size_t>(entries), 0);
    for (int64_t k = 0; k < call.K; ++k) {
      const int64_t at = m * call.K + k;
      if (const int64_t column = column_of(m, at); column >= 0) {
        sums[static_cast<size_t>(arg[at] - begin)] +=
            T::widen(src[column * call.K + k]) * T::widen(grad[at]);
      }
    }
    auto* dst = static_cast<Element*>(call.grad_values) + begin;
    std::transform(sums.begin(), sums.end(), dst, T::round);
  }

  // Threads split the work by columns, because several rows of grad may go to one row of src. With
  // few columns they split the rows instead, and then the rows of src.
  void src_columns() {
    const int64_t count = call.csr.N * call.K;
    AlignedBlock wide;
    auto* sums = static_cast<Number*>(call.grad_src);
    if constexpr (kRounds) {
      wide = aligned_block(static_cast<size_t>(count) * sizeof(Number));
      sums = reinterpret_cast<Number*>(wide.get());
    }
    parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
      std::fill(sums + begin, sums + end, Number{0});
    });
    const int64_t tiles = divide_up(call.K, kColumns);
    if (tiles < parallel_threads() && call.csr.M * call.K > kGrain) {
      add_in_ranges(sums);
    } else {
      const int64_t grain =
          std::max<int64_t>(1, kGrain / (kColumns * std::max<int64_t>(1, call.csr.M)));
      parallel_for(0, tiles, grain, [&](int64_t begin, int64_t end) {
        add_columns(begin * kColumns, std::min(call.K, end * kColumns), sums);
      });
    }
    if constexpr (kRounds) {
      auto* dst = static_cast<Element*>(call.grad_src);
      parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
        std::transform(sums + begin, sums + end, dst + begin, T::round);
      });
    }
  }

  void add_columns(int64_t first, int64_t last, Number* sums) {
    for (int64_t m = 0; m < call.csr.M && good(); ++m) {
      for (int64_t k = first; k < last; ++k) {
        const int64_t at = m * call.K + k;
        if (const int64_t column = column_of(m, at); column >= 0) {
          const Number value = values != nullptr ? T::widen(values[arg[at]]) : Number{1};
          sums[column * call.K + k] += value * T::widen(grad[at]);
        }
      }
    }
  }

  // What is added to one element of the sums.
  struct Term {
    int64_t at;
    Number value;
  };

  // Each thread sorts the terms of a block of rows by the range of src that they go to. Then each
  // thread adds up a range, block by block: an element's terms are added in the order of the rows,
  // as by one thread.
  void add_in_ranges(Number* sums) {
    const int64_t ranges = parallel_threads(), blocks = ranges;
    const int64_t range_rows = std::max<int64_t>(1, divide_up(call.csr.N, ranges));
    const int64_t some = std::max<int64_t>(1, kTerms / call.K);  // rows at a time
    std::vector<std::vector<Term>> sorted(static_cast<size_t>(blocks * ranges));
    for (int64_t first = 0; first < call.csr.M && good(); first += some) {
      const int64_t rows = std::min(some, call.csr.M - first);
      parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) {
          auto* const to = sorted.data() + block * ranges;
          std::for_each_n(to, ranges, [](auto& terms) { terms.clear(); });
          for (int64_t m = first + block * rows / blocks; m < first + (block + 1) * rows / blocks;
               ++m) {
            sort_row(m, range_rows, to);
          }
        }
      });
      parallel_for(0, ranges, 1, [&](int64_t begin, int64_t end) {
        for (int64_t range = begin; range < end; ++range) {
          for (int64_t block = 0; block < blocks; ++block) {
            for (const Term& term : sorted[static_cast<size_t>(block * ranges + range)]) {
              sums[term.at] += term.value;
            }
          }
        }
      });
    }
  }

  void sort_row(int64_t m, int64_t range_rows, std::vector<Term>* to) {
    for (int64_t k = 0; k < call.K; ++k) {
      const int64_t at = m * call.K + k;
      if (const int64_t column = column_of(m, at); column >= 0) {
        const Number value = values != nullptr ? T::widen(values[arg[at]]) : Number{1};
        to[column / range_rows].push_back({column * call.K + k, value * T::widen(grad[at])});
      }
    }
  }

  const ArgGradCall& call;
  const Index* crow = call.csr.template crow_as<Index>();
  const Index* col = call.csr.template col_as<Index>();
  const Index* arg = static_cast<const Index*>(call.arg);
  const Element* values = static_cast<const Element*>(call.values);
  const Element* src = static_cast<const Element*>(call.src);
  const Element* grad = static_cast<const Element*>(call.grad);
  std::atomic<ArgGradFault> fault{ArgGradFault::none};
};

template <typename Index>
ArgGradFault by_type(const ArgGradCall& call) {
  switch (call.type) {
    case DataType::f32:
      return ArgGrad<Plain<float>, Index>(call).run();
    case DataType::f64:
      return ArgGrad<Plain<double>, Index>(call).run();
    case DataType::bf16:
      return ArgGrad<Half<bf16_to_float, float_to_bf16>, Index>(call).run();
    case DataType::f16:
      return ArgGrad<Half<f16_to_float, float_to_f16>, Index>(call).run();
    default:
      __builtin_unreachable();
  }
}

}  // namespace

ArgGradFault spmm_arg_grad(const ArgGradCall& call) {
  if (!csr_ascends(call.csr)) {
    return ArgGradFault::crow;
  }
  return call.csr.wide ? by_type<int64_t>(call) : by_type<int32_t>(call);
}

}  // namespace cpuaccel::kernels
