#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/edges.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/paths.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<GemmFunction>, name, gemm_##name)
#include "kernels/gemm/kernels.inc"
#undef CPUACCEL_KERNEL
};

// dst = beta * c + bias
void only_start(const GemmCall& call, const GemmKernels& kernels, int64_t g) {
  constexpr int64_t kElements = 32768;
  const int64_t rows = at_least(kElements / call.N, 1);
  for_each_piece(divide_up(call.M, rows), 1, [&](int64_t piece) {
    const int64_t m0 = piece * rows;
    const GemmResult result(call, kernels, {g, m0, std::min(rows, call.M - m0), 0, call.N});
    if (!result.start()) {
      result.clear();
    }
    result.finish();
  });
}

// Batch elements per thread at least. With few rows the bytes of B count, not the arithmetic; and
// each element has a fixed cost.
int64_t batch_grain(const GemmCall& call) {
  constexpr int64_t kLeastRows = 8, kEach = 4096;  // kEach: the fixed cost in multiply-adds
  return at_most(gemm_grain(at_least(call.M, kLeastRows), call.N, at_least(call.K, 1)),
                 kThreadWork / kEach);
}

// Threads share whole batch elements if these are small, or if all threads get the same number but
// for a tenth. Otherwise each element is split.
bool shared_whole(const GemmCall& call) {
  if (call.batch == 1) {
    return false;
  }
  const int64_t threads = parallel_threads();
  const bool even = divide_up(call.batch, threads) * threads <= call.batch + call.batch / 10;
  return even || gemm_grain(call.M, call.N, at_least(call.K, 1)) > 1;
}

bool in_f32(const GemmCall& call) {
  const DataType b = call.packed != nullptr ? call.packed->type() : call.b.type;
  return call.a.type == DataType::f32 && b == DataType::f32;
}

}  // namespace

std::span<const KernelRow<GemmFunction>> gemm_kernels() { return kRows; }

void gemm(const GemmCall& call) { gemm(call, first_usable(gemm_kernels()).function); }

void gemm(const GemmCall& call, GemmFunction* row) {
  if (call.M == 0 || call.N == 0 || call.batch == 0) {
    return;
  }
  const GemmKernels& kernels = call.packed != nullptr ? call.packed->row()() : row();
  const bool nothing = call.K == 0 || (call.alpha == 0.0f && in_f32(call));
  const auto run = nothing ? only_start : gemm_path(call, kernels).run;
  for_each_piece(call.batch, shared_whole(call) ? batch_grain(call) : call.batch,
                 [&](int64_t g) { run(call, kernels, g); });
}

}  // namespace cpuaccel::kernels
