#include "ops/matmul/providers.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fork.h"
#include "base/isa.h"

namespace cpuaccel::ops {
namespace {

using Rows = std::vector<MatmulRow>;

// Readers take no lock, so tables that were replaced stay: a few small ones in a process's life.
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

// The rows of the table, those of `tune` too, are measured on linear layers, whose weights lie by
// columns. Of weights that lie by rows, cpuaccel's kernel first packs the panels that a few rows of
// src then read once. By CPU time on Zen 4, K and N of 256 to 3072, 8 and 16 rows: 0.7 to 1.05
// times as fast as torch's, in AVX2 instructions 0.5 to 1.1. Up to 4 rows, which need no panels:
// 1.1 to 2.4.
bool packs_for_few_rows(const MatmulCall& call) {
  constexpr int64_t kSkinny = 4, kFew = 16, kSmallWeights = 4096;
  return call.type == at::kFloat && !call.batched && call.M > kSkinny && call.M <= kFew &&
         call.K * call.N > kSmallWeights && call.weights.strides[2] == 1 &&
         call.weights.strides[1] != 1 && isa_usable(Isa::avx2);
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

Provider choose_matmul_provider(const MatmulCall& call) {
  const auto& t = table();
  if (const int forced = t.forced.load(std::memory_order_relaxed); forced >= 0) {
    return static_cast<Provider>(forced);
  }
  const auto* rows = t.current.load(std::memory_order_acquire);
  if (rows != nullptr) {
    // In double: the product of four sizes may leave int64.
    const double work = static_cast<double>(call.batch) * static_cast<double>(call.M) *
                        static_cast<double>(call.N) * static_cast<double>(call.K);
    for (const auto& row : *rows) {
      if (row.type == call.type && call.M <= row.max_M &&
          work <= static_cast<double>(row.max_work)) {
        const bool packs = row.provider == Provider::own && packs_for_few_rows(call);
        return packs ? Provider::intree : row.provider;
      }
    }
  }
  return Provider::intree;
}

}  // namespace cpuaccel::ops
