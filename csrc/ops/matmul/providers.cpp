#include "ops/matmul/providers.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fork.h"
#include "base/isa.h"
#include "ops/learning.h"

namespace cpuaccel::ops {
namespace {

using Rows = std::vector<MatmulRow>;

// Readers take no lock, so replaced tables are never freed: a few small ones per process.
struct Table {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::leaf, this);
  std::vector<std::unique_ptr<const Rows>> all;
  std::atomic<const Rows*> current{nullptr};
  std::atomic<int> forced{-1};
};

// Never destroyed: ops run while the process exits.
Table& table() {
  static auto& instance = *std::make_unique<Table>().release();
  return instance;
}

struct Product {
  const MatmulCall& call;
  const at::Tensor &src, &weights;
  bool added;  // the call is addmm or baddbmm

  bool single_floats() const { return call.type == at::kFloat && !call.batched; }
  bool by_rows() const { return weights.stride(1) == 1 && weights.stride(0) != 1; }
};

// Products that the table does not cover, even with rows of `tune`: its rows are measured on linear
// layers of many columns, whose weights are stored by columns.
struct Exception {
  Provider otherwise;  // what the table says
  bool (*applies)(const Product& product);
  Provider provider;
};

constexpr int64_t kSkinny = 4, kFew = 16;

// src is read once, in place.
bool few_columns(const Product& p) {
  return p.single_floats() && p.call.N > 1 && p.call.N <= kSkinny && p.call.M >= kFew &&
         p.call.K >= kFew && p.src.stride(1) == 1;
}

// cpuaccel's kernel has a fixed cost for each matrix.
bool tiny_batches(const Product& p) {
  const MatmulCall& call = p.call;
  const int64_t least = call.type == at::kBFloat16 && isa_usable(Isa::avx512) ? 16 : 64;
  return call.batched && call.batch > 4 && call.M < least && call.N < least && call.K < least &&
         call.M * call.N * call.K < least;
}

// Few weights are packed fast, many rows make up for packing more, and an addend costs torch's
// kernel as much again. Weights by columns need no packing for a few rows.
bool little_packing(const Product& p) {
  constexpr int64_t kDotRows = 8, kManyRows = 50, kFewWeights = 8192;
  if (!p.single_floats()) {
    return false;
  }
  return p.by_rows() ? p.call.M >= kFew
                     : p.added || p.call.M <= kDotRows || p.call.M >= kManyRows ||
                           p.call.K * p.call.N <= kFewWeights;
}

// Speeds by CPU time on Zen 4 with AVX-512, and in AVX2 instructions unless stated otherwise. The
// first match wins.
constexpr std::array kExceptions{
    // 1.4 to 11 times as fast as torch's, 20 to 5000 rows
    Exception{Provider::intree, few_columns, Provider::cpuaccel},
    Exception{Provider::onednn, few_columns, Provider::cpuaccel},
    // AVX-512: 1.0 to 1.7, for 4096 to 131072 multiply-adds; the rest 0.7 to 0.99
    Exception{Provider::intree,
              [](const Product& p) {
                constexpr double kWork = 131072;
                return isa_usable(Isa::avx512) && little_packing(p) &&
                       static_cast<double>(p.call.M) * static_cast<double>(p.call.K) *
                               static_cast<double>(p.call.N) <=
                           kWork;
              },
              Provider::cpuaccel},
    // 0.61 without AVX-512 if rows of the weights are a multiple of pages apart, else 0.9 to 1.2.
    // With AVX-512 1.0 and more.
    Exception{Provider::onednn,
              [](const Product& p) {
                constexpr int64_t kPage = 1024;  // floats
                return !isa_usable(Isa::avx512) && p.single_floats() && p.by_rows() &&
                       p.call.N > kPage && p.weights.stride(0) % kPage == 0;
              },
              Provider::intree},
    // 0.1 to 0.96 with fewer than 64 multiply-adds; with 64 1.1 to 1.4. In bf16, where torch's loop
    // is slower, 1.4 with 27.
    Exception{Provider::cpuaccel, tiny_batches, Provider::intree},
    // oneDNN is 0.3 times as fast as torch's matrix-vector product, cpuaccel's kernel 0.6 to 1.5
    Exception{
        Provider::onednn,
        [](const Product& p) { return p.single_floats() && p.call.N == 1 && p.call.M > kFew; },
        Provider::intree},
    // If weights are stored by rows, cpuaccel's kernel first packs panels that a few rows of src
    // then read once. K and N of 256 to 3072, 8 and 16 rows: 0.7 to 1.05, in AVX2 instructions 0.5
    // to 1.1. Up to 4 rows, which need no panels: 1.1 to 2.4.
    Exception{Provider::cpuaccel,
              [](const Product& p) {
                constexpr int64_t kSmallWeights = 4096;
                return p.single_floats() && p.call.M > kSkinny && p.call.M <= kFew &&
                       p.call.K * p.call.N > kSmallWeights && p.by_rows();
              },
              Provider::intree},
};

Provider unless_excepted(Provider of_row, const Product& product) {
  for (const auto& exception : kExceptions) {
    if (exception.otherwise == of_row && exception.applies(product)) {
      return isa_usable(Isa::avx2) ? exception.provider : of_row;
    }
  }
  return of_row;
}

// Null: no row matches.
const MatmulRow* row_of(const MatmulCall& call) {
  if (const auto* rows = table().current.load(std::memory_order_acquire)) {
    const double work = multiply_adds(call);
    for (const auto& row : *rows) {
      if (row.type == call.type && call.M <= row.max_M &&
          work <= static_cast<double>(row.max_work)) {
        return &row;
      }
    }
  }
  return nullptr;
}

bool onednn_takes(const MatmulCall& call) {
#ifdef CPUACCEL_HAS_ONEDNN
  return call.type == at::kFloat || isa_usable(Isa::avx512);
#else
  return false;
#endif
}

ChosenProvider learned_provider(Provider suggested, const Product& product) {
  const MatmulCall& call = product.call;
  // A probe needs memory for another result.
  constexpr double kMostElements = 1 << 26;
  if (static_cast<double>(call.batch) * static_cast<double>(call.M) * static_cast<double>(call.N) >
      kMostElements) {
    return {suggested};
  }
  std::array<int8_t, 3> candidates{static_cast<int8_t>(suggested)};
  size_t count = 1;
  for (const Provider other : {Provider::cpuaccel, Provider::onednn, Provider::intree}) {
    if (other != suggested && (other != Provider::onednn || onednn_takes(call))) {
      candidates[count++] = static_cast<int8_t>(other);
    }
  }
  const int flags = (call.batched ? 1 : 0) | (product.by_rows() ? 2 : 0) | (product.added ? 4 : 0) |
                    (product.src.stride(-1) != 1 ? 8 : 0);
  const auto found =
      learned(LearnedOp::product, call.type, flags, {call.M, call.K, call.N, call.batch},
              multiply_adds(call), {candidates.data(), count});
  return {static_cast<Provider>(found.candidate), found.open};
}

}  // namespace

void set_matmul_rows(std::vector<MatmulRow> rows) {
  auto& t = table();
  const std::scoped_lock lock(t.mutex);
  t.all.push_back(std::make_unique<const Rows>(std::move(rows)));
  t.current.store(t.all.back().get(), std::memory_order_release);
}

void force_matmul_provider(std::optional<Provider> provider) {
  table().forced.store(provider ? static_cast<int>(*provider) : -1, std::memory_order_relaxed);
}

ChosenProvider choose_matmul_provider(const MatmulCall& call, const at::Tensor& src,
                                      const at::Tensor& weights, bool added) {
  const auto& t = table();
  if (const int forced = t.forced.load(std::memory_order_relaxed); forced >= 0) {
    return {static_cast<Provider>(forced)};
  }
  const Product product{call, src, weights, added};
  const MatmulRow* const row = row_of(call);
  if (row == nullptr) {
    return learned_provider(Provider::intree, product);
  }
  const Provider provider = unless_excepted(row->provider, product);
  return row->measured_here ? ChosenProvider{provider} : learned_provider(provider, product);
}

}  // namespace cpuaccel::ops
